// Ways to bring documents in: drop, file picker, web page, folder of the machine of the server.

import { button, formatBytes, formatCount, h, plain } from "./dom.js";
import { send } from "./api.js";
import { trackJob } from "./jobs.js";
import { currentBatch, indexUploads, onUploadChange, sendChosen, stopSending } from "./uploads.js";

/** The section that brings documents in. `sources`: the response of GET /sources; `compact`: show less at first. */
export function intakeSection(sources, compact = false) {
  if (!sources.can_change) return h("p", { class: "note" }, "Only the owner of this server may add documents.");
  const { uploads, roots } = sources;
  const files = picker({ multiple: true });
  const folder = picker({ webkitdirectory: true });
  const zone = h("div", { class: "drop", id: "drop" },
    h("p", { class: "drop-title" }, "Drop files or folders here"),
    h("div", { class: "tools" }, button("Choose files", () => files.click(), { class: "first", id: "choose-files" }), button("Choose a folder", () => folder.click()), files, folder),
    h("p", { class: "hint" }, `Up to ${formatBytes(uploads.max_file_bytes)} a file; ${formatBytes(Math.max(0, uploads.max_bytes - uploads.bytes))} left. Hidden files and secrets are left out.`));
  const others = [
    adder({ id: "add-url", label: "Web page", placeholder: "https://example.org/manual.html", toBody: (value) => ({ url: /^[a-z]+:\/\//i.test(value) ? value : `https://${value}` }) }),
    roots.length > 0 && adder({ id: "add-path", label: "Folder or file of this machine", value: roots[0], hint: `Below ${roots.join(", ")}. It stays where it is.`, toBody: (value) => ({ path: value }) }),
  ];
  return h("section", { class: "intake", "aria-label": "Add documents" }, zone, uploadProgress(),
    compact ? h("details", {}, h("summary", {}, roots.length ? "Add a web page, or a folder of this machine" : "Add a web page"), others) : others);
}

function picker(options) {
  const field = h("input", { type: "file", ...options, hidden: true, tabindex: -1 });
  field.addEventListener("change", () => {
    sendChosen(field.files);
    field.value = ""; // the same file can be chosen again
  });
  return field;
}

function adder({ id, label, value = "", placeholder = null, hint = "", toBody }) {
  const field = h("input", { type: "text", id, name: id, value, placeholder, autocomplete: "off", spellcheck: "false", maxlength: 4000, "aria-describedby": hint ? `${id}-hint` : null });
  const line = h("p", { class: "trouble", role: "alert", hidden: true });
  const submit = async (event) => {
    event.preventDefault();
    line.hidden = true;
    if (!field.value.trim()) return field.focus();
    try {
      trackJob(await send("POST", "sources", toBody(field.value.trim())));
      field.value = value;
    } catch (error) {
      line.textContent = plain(error.message);
      line.hidden = false;
    }
  };
  return h("form", { class: "adder", on: { submit } }, h("label", { for: id }, label), field, h("button", { type: "submit" }, "Add"), hint && h("p", { class: "hint", id: `${id}-hint` }, plain(hint)), line);
}

/** What is being sent, and what was refused. */
function uploadProgress() {
  const state = h("p", { class: "state" });
  const fill = h("span", { class: "fill" });
  const track = h("span", { class: "track", role: "progressbar", "aria-label": "Files sent", "aria-valuemin": 0, "aria-valuemax": 100 }, fill);
  const stop = button("Stop", stopSending);
  const index = button("Index them", async () => {
    index.hidden = true;
    await indexUploads().catch((error) => { state.textContent = plain(error.message); });
  });
  const refused = h("ul", { class: "failures", "aria-label": "Refused files" });
  const box = h("div", { class: "job" }, h("div", { class: "job-head" }, state, h("div", { class: "tools" }, stop, index)), track, refused);
  let count = 0;
  const render = () => {
    const batch = currentBatch();
    box.hidden = !batch || (batch.ended && !batch.refused.length && !batch.stopped && !batch.error && !batch.hidden && !batch.replaced);
    if (!batch) return;
    const done = batch.sent + batch.refused.length;
    const share = batch.total ? Math.round((100 * done) / batch.total) : 0;
    state.textContent = stateText(batch);
    track.hidden = stop.hidden = batch.ended;
    index.hidden = !(batch.ended && batch.stopped && batch.sent);
    track.setAttribute("aria-valuenow", share);
    fill.style.setProperty("--share", `${share}%`);
    if (batch.refused.length !== count) {
      count = batch.refused.length;
      refused.replaceChildren(...batch.refused.map(({ name, error }) => h("li", {}, h("bdi", { class: "file" }, plain(name)), h("p", { class: "trouble" }, plain(error)))));
    }
    refused.hidden = !count;
  };
  const end = onUploadChange(() => (box.isConnected ? render() : end()));
  render();
  return box;
}

function stateText(batch) {
  const left = batch.hidden ? ` ${formatCount(batch.hidden, "hidden file was", "hidden files were")} left out.` : "";
  if (batch.error) return plain(batch.error);
  if (!batch.ended) return `Sending files: ${batch.sent.toLocaleString("en")} of ${batch.total.toLocaleString("en")}.${left}`;
  if (batch.stopped) return `Stopped: ${batch.sent.toLocaleString("en")} of ${formatCount(batch.total, "file was", "files were")} sent.${left}`;
  return `${formatCount(batch.sent, "file was", "files were")} sent${batch.refused.length ? `, ${batch.refused.length} refused` : ""}${batch.replaced ? `, ${batch.replaced} replaced one of the same name` : ""}.${left}`;
}
