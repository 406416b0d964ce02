// Thumbs of an answer, with a reason: an evaluation can make questions of them.

import { announce, button, h, plain } from "./dom.js";
import { iconButton } from "./icons.js";
import { send } from "./api.js";
import { t } from "./words.js";

const REASONS = {
  wrong: t("It is wrong"),
  incomplete: t("It is incomplete"),
  missing: t("The documents do contain an answer"),
  unanswerable: t("The documents do not contain an answer"),
  other: t("Something else"),
};

/** Two buttons; a bad rating asks for the reason below the line of figures. */
export function thumbs(message) {
  let rating = message.feedback?.rating ?? null;
  const up = iconButton("good", t("Good answer"), () => rate(rating === "up" ? null : "up"));
  const down = iconButton("bad", t("Bad answer"), () => (rating === "down" ? rate(null) : askReason()));
  const line = h("span", { class: "trouble", role: "alert", hidden: true });
  const show = () => {
    up.setAttribute("aria-pressed", String(rating === "up"));
    down.setAttribute("aria-pressed", String(rating === "down"));
  };
  const rate = async (value, reason = null, note = "") => {
    line.hidden = true;
    try {
      const stored = await send("POST", "feedback", { message_id: message.id, rating: value, reason, note });
      rating = stored.feedback?.rating ?? null;
      show();
      announce(rating ? t("Thank you.") : t("The rating was taken back."));
    } catch (error) {
      line.textContent = plain(error.message);
      line.hidden = false;
    }
  };
  const askReason = () => {
    const footer = down.closest("footer");
    const reason = h("select", { name: "reason", "aria-label": t("What is bad about the answer?") }, Object.entries(REASONS).map(([value, text]) => h("option", { value }, text)));
    const note = h("input", { type: "text", name: "note", maxlength: 2000, placeholder: t("In words, if you like"), "aria-label": t("In words"), autocomplete: "off" });
    const close = () => {
      form.remove();
      down.focus();
    };
    const form = h("form", { class: "reason", on: {
      submit: (event) => {
        event.preventDefault();
        close();
        rate("down", reason.value, note.value.trim());
      },
      keydown: (event) => {
        if (event.key !== "Escape") return;
        event.stopPropagation();
        close();
      },
    } }, reason, note, h("div", { class: "tools" }, h("button", { type: "submit", class: "first" }, t("Send")), button(t("Cancel"), close)));
    footer.parentElement.querySelector(".reason")?.remove();
    footer.after(form);
    reason.focus();
  };
  show();
  return [up, down, line];
}
