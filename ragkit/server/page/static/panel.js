// The side panel: one at a time, closed with Escape; the focus returns to the element that opened it.
// On narrow screens it is modal.

import { button, byId, h } from "./dom.js";
import { t } from "./words.js";

const narrowScreen = matchMedia("(max-width: 820px)");
let opener = null;
let requestId = 0;

const backgroundElements = () => [byId("main"), byId("side"), byId("bar"), byId("skip")];

/**
 * Opens the panel. `fill(body, isCurrent)` may be slow; `isCurrent()` is false once the panel shows something else.
 */
export async function openPanel({ title, subtitle = null, tools = [] }, from, fill) {
  const panel = byId("panel");
  if (!panel.contains(from)) {
    opener?.classList.remove("shown");
    opener = from;
    opener.classList.add("shown");
  }
  requestId += 1;
  const current = requestId;
  const heading = h("h2", { id: "panel-title", tabindex: -1 }, title);
  const body = h("div", { class: "panel-body", tabindex: 0, role: "region", "aria-labelledby": "panel-title" });
  panel.replaceChildren(
    h("div", { class: "panel-head" }, heading, button(t("Close"), closePanel, { id: "panel-close", "aria-keyshortcuts": "Escape" }),
      subtitle && h("p", { class: "where" }, subtitle), tools.length > 0 && h("div", { class: "tools" }, tools)),
    body);
  panel.hidden = false;
  document.body.classList.add("with-panel");
  updateModal();
  heading.focus({ preventScroll: true });
  await fill(body, () => requestId === current && !panel.hidden);
}

export function closePanel() {
  const panel = byId("panel");
  if (panel.hidden) return;
  requestId += 1;
  panel.hidden = true;
  panel.replaceChildren();
  document.body.classList.remove("with-panel");
  updateModal();
  const back = opener?.isConnected ? opener : byId("question") ?? byId("main");
  opener?.classList.remove("shown");
  opener = null;
  back.focus({ preventScroll: true });
}

export const panelIsOpen = () => !byId("panel").hidden;

/** Makes the panel modal on narrow screens; the width can change while it is open. */
function updateModal() {
  const modal = narrowScreen.matches && panelIsOpen();
  for (const element of backgroundElements()) element.inert = modal;
  const panel = byId("panel");
  if (modal) {
    panel.setAttribute("role", "dialog");
    panel.setAttribute("aria-modal", "true");
  } else {
    panel.setAttribute("role", "complementary");
    panel.removeAttribute("aria-modal");
  }
}

narrowScreen.addEventListener("change", updateModal);
