// The knowledge bases of the server, and for its owner what changes them.

import { button, confirmAction, h, plain } from "./dom.js";
import { get, send } from "./api.js";
import { fieldForm, input } from "./fields.js";
import { t } from "./words.js";

const RESTART_MS = 500; // milliseconds between two looks at a server that starts again

/** The list of `GET bases`. After a change, `body` waits for the server, and the page goes to one that there is. */
export function baseList({ bases, current, managed }, body) {
  if (!managed) return [bases.length > 0 && h("p", {}, plain(bases.join(", "))), h("p", { class: "hint" }, t("To make, rename and delete them here, start the server with a folder for them:"), " ", h("code", {}, "ragkit serve --kb-folder FOLDER"))].filter(Boolean);
  const root = location.pathname.replace(new RegExp(`kb/${current}/$`), "");
  const line = h("p", { class: "trouble", role: "alert", hidden: true });
  const change = async (method, path, name, next) => {
    line.hidden = true;
    try {
      const { bases: names } = await send(method, path, name === null ? undefined : { name });
      await waitForBases(root, body, names, names.includes(next) ? next : names[0]);
    } catch (error) {
      line.textContent = plain(error.message);
      line.hidden = false;
    }
  };
  const row = (base) => {
    const path = `bases/${encodeURIComponent(base)}`;
    const name = plain(base);
    const rename = button(t("Rename"), () => item.replaceChildren(fieldForm([input("base-name", t("New name"), { value: base, maxlength: 40 })], t("Rename"),
      (value) => change("PATCH", path, value("base-name"), base === current ? value("base-name") : current), () => {
        item.replaceChildren(...parts);
        rename.focus();
      })), { "aria-label": t("Rename {name}", { name }) });
    const remove = button(t("Delete"), async () => {
      const text = t("Its index, uploaded files, users and sessions are deleted. Documents of other folders stay where they are.");
      if (await confirmAction(t("Delete {name}?", { name }), text, t("Delete"))) change("DELETE", path, null, current);
    }, { "aria-label": t("Delete {name}", { name }) });
    const parts = [h("bdi", { class: "file" }, name), h("div", { class: "tools" }, rename, bases.length > 1 && remove)];
    const item = h("li", {}, parts);
    return item;
  };
  return [line, h("ul", { class: "rows users", "aria-label": t("Knowledge bases") }, bases.map(row)),
    fieldForm([input("new-base", t("Name of a new knowledge base"), { maxlength: 40, placeholder: "manuals" })], t("Make"), (value) => value("new-base") && change("POST", "bases", value("new-base"), value("new-base"))),
    h("p", { class: "hint" }, t("After a change the server starts again: that takes some seconds."))];
}

/** Waits until the server has started with these names, then opens one of them. */
async function waitForBases(root, body, names, next) {
  body.replaceChildren(h("p", { class: "waiting", role: "status" }, t("The server starts again")));
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, RESTART_MS));
    const known = await get(`${root}kb/${encodeURIComponent(next)}/bases`).catch(() => null);
    if (known?.bases.join() === names.join()) return location.assign(`${root}kb/${encodeURIComponent(next)}/`);
  }
}
