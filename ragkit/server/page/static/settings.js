// The settings of owners, in a dialog: users with their tokens, and what the server was started with.

import { announce, button, confirmAction, copyField, formatBytes, formatDay, formatNumber, h, plain } from "./dom.js";
import { get, hasToken, send, useToken } from "./api.js";
import { baseList } from "./bases.js";
import { fieldForm, input } from "./fields.js";
import { locale, t, tn } from "./words.js";

const ROLES = { reader: t("reader"), editor: t("editor"), owner: t("owner") };
const LIFETIMES = [["", t("for ever")], ...[7, 30, 90, 365].map((days) => [`${days}d`, tn("{n} day|{n} days", days)])];
const LIMITS = {
  answer_usd: t("Cost of one answer"), index_usd: t("Cost of an index job without confirmation"), answer_seconds: t("Time of one answer"),
  requests_per_minute: t("Requests per minute and token"), max_iterations: t("Requests to the model for one answer"), max_running: t("Answers at the same time"),
  question_chars: t("Characters of a question"), upload_bytes: t("Size of all uploaded files"), days: t("Sessions are kept for"), max_sessions: t("Sessions of one user"), max_bytes: t("Size of the sessions of one user"),
};
const UNITS = { usd: (value) => value.toLocaleString(locale, { style: "currency", currency: "USD" }), seconds: (value) => `${formatNumber(value)} s`, bytes: formatBytes, days: (value) => tn("{n} day|{n} days", value), count: formatNumber };

export function openSettings() {
  const body = h("div", { class: "settings" });
  const tabs = [[t("Users"), showUsers], [t("Server"), showServer]].map(([label, show]) => button(label, (event) => {
    for (const tab of tabs) tab.setAttribute("aria-pressed", String(tab === event.currentTarget));
    body.replaceChildren(h("p", { class: "waiting" }, t("Loading")));
    show(body).catch((error) => body.replaceChildren(h("p", { class: "trouble", role: "alert" }, plain(error.message))));
  }));
  const dialog = h("dialog", { class: "wide", "aria-labelledby": "settings-title" },
    h("div", { class: "section-head" }, h("h2", { id: "settings-title" }, t("Settings")), h("div", { class: "tools views-bar" }, tabs, button(t("Close"), () => dialog.close()))), body);
  dialog.addEventListener("close", () => dialog.remove());
  addEventListener("hashchange", () => dialog.close(), { once: true }); // the Back button leads to another view
  document.body.append(dialog);
  dialog.showModal();
  tabs[0].click();
}

/** The users; drawn again after each change. */
async function showUsers(body) {
  const access = await get("access");
  const line = h("p", { class: "trouble", role: "alert", hidden: true });
  const fresh = h("div", { role: "status" });
  const list = h("ul", { class: "rows users", tabindex: -1, "aria-label": t("Users") });
  const rules = h("div", {});
  const open = h("p", { class: "note warn", hidden: !access.open }, t("No token is needed now. The first user is an owner; from then on everyone needs a token."));
  const draw = ({ users, rules: paths, default: others, you }) => {
    list.replaceChildren(...users.map((user) => userRow(user, you, change)));
    rules.replaceChildren(...ruleList(paths, others));
  };
  /** Does something, shows a new token if there is one, and draws what is there then. */
  const change = async (work) => {
    line.hidden = true;
    try {
      const made = await work();
      if (made?.token) showToken(fresh, made, open);
      draw(await get("access"));
      if (!body.contains(document.activeElement)) list.focus();
      return true;
    } catch (error) {
      line.textContent = plain(error.message);
      line.hidden = false;
      line.scrollIntoView({ block: "nearest" });
      return false;
    }
  };
  draw(access);
  body.replaceChildren(line, open, fresh, list, userForm(access, change), rules);
}

/** A token that is not shown again. Of a server that was open until now, it becomes that of this page. */
function showToken(fresh, { user, token }, open) {
  if (!open.hidden && !hasToken()) useToken(token);
  open.hidden = true;
  const { box, field } = copyField("new-token", plain(t("Token of {name}, shown once", { name: user.user })), token);
  fresh.replaceChildren(h("div", { class: "note good" }, box));
  field.focus();
  field.select();
}

function userRow({ user, role, groups, tokens }, you, change) {
  const path = `access/users/${encodeURIComponent(user)}`;
  const name = plain(user);
  const edit = button(t("Change"), () => row.replaceChildren(editForm({ user, role, groups }, change, () => {
    row.replaceChildren(...parts);
    edit.focus();
  })), { "aria-label": t("Change {name}", { name }) });
  const parts = [
    h("div", {}, h("bdi", { class: "file" }, name), user === you && h("span", { class: "mark" }, t("you")), h("p", { class: "where" }, ROLES[role], groups.length > 0 && `, ${t("in {groups}", { groups: plain(groups.join(", ")) })}`)),
    h("div", { class: "tools" }, edit,
      button(t("New token"), () => row.querySelector("form") ?? row.append(tokenForm(user, tokens, change)), { "aria-label": t("New token of {name}", { name }) }),
      button(t("Remove"), async () => (await confirmAction(t("Remove {name}?", { name }), t("All tokens of this user are refused from then on. The sessions stay until they expire."), t("Remove"))) && change(() => send("DELETE", path)), { "aria-label": t("Remove {name}", { name }) })),
    h("ul", { class: "tokens", "aria-label": t("Tokens of {name}", { name }) }, tokens.map((token) => h("li", {}, h("bdi", {}, plain(token.name)), h("span", { class: token.expired ? "trouble" : "where" }, lifetime(token)),
      button(t("Revoke"), async () => (await confirmAction(t("Revoke the token {name}?", { name: plain(token.name) }), t("Whoever uses it is refused from then on."), t("Revoke"))) && change(() => send("DELETE", `${path}/tokens/${encodeURIComponent(token.name)}`)), { class: "small", "aria-label": t("Revoke the token {name} of {user}", { name: plain(token.name), user: name }) })))),
  ];
  const row = h("li", {}, parts);
  return row;
}

function lifetime({ created, expires, expired }) {
  const until = expires && (expired ? t("expired on {day}", { day: formatDay(expires) }) : t("valid until {day}", { day: formatDay(expires) }));
  return [created && t("created on {day}", { day: formatDay(created) }), until].filter(Boolean).join(", ");
}

const select = (id, label, options, value) => h("label", {}, label, h("select", { id, name: id }, options.map(([key, text]) => h("option", { value: key, selected: key === value }, text))));
const groupsOf = (text) => text.split(/[\s,]+/).filter(Boolean);

function userForm({ users, open }, change) {
  const role = open && !users.length ? "owner" : "reader";
  const form = fieldForm([input("user-name", t("Name"), { maxlength: 100 }), select("user-role", t("Role"), Object.entries(ROLES), role), input("user-groups", t("Groups"), { placeholder: "hr, board" }), select("user-expires", t("Token valid"), LIFETIMES, "")],
    t("Add a user"), async (value) => {
      const body = { user: value("user-name"), role: value("user-role"), groups: groupsOf(value("user-groups")), expires: value("user-expires") || null };
      if (body.user && (await change(() => send("POST", "access/users", body)))) form.reset();
    });
  return h("section", { "aria-labelledby": "add-user" }, h("h3", { id: "add-user" }, t("Add a user")), h("p", { class: "hint" }, t("Readers ask and read what they may. Editors also add and remove documents. Owners read everything and change users.")), form);
}

function editForm({ user, role, groups }, change, cancel) {
  return fieldForm([h("p", { class: "file" }, plain(user)), select("role", t("Role"), Object.entries(ROLES), role), input("groups", t("Groups"), { value: groups.join(", ") })], t("Save"),
    (value) => change(() => send("PATCH", `access/users/${encodeURIComponent(user)}`, { role: value("role"), groups: groupsOf(value("groups")) })).then((done) => done && announce(t("Changed."))), cancel);
}

function tokenForm(user, tokens, change) {
  const taken = new Set(tokens.map(({ name }) => name));
  const name = ["laptop", "phone", "script"].find((one) => !taken.has(one)) ?? `token-${tokens.length + 1}`;
  const form = fieldForm([input("token-name", t("Name of the token"), { value: name, maxlength: 100 }), select("token-expires", t("Token valid"), LIFETIMES, "")], t("Create"),
    (value) => change(() => send("POST", `access/users/${encodeURIComponent(user)}/tokens`, { name: value("token-name"), expires: value("token-expires") || null })), () => form.remove());
  return form;
}

/** The rules by path, which the command line changes. */
function ruleList(rules, others) {
  return [h("h3", {}, t("Who may read what")), rules.length > 0 && h("dl", { class: "facts" }, rules.map(({ path, allow }) => [h("dt", {}, h("code", {}, plain(path))), h("dd", {}, plain(allow.join(", ")) || t("owners only"))])),
    h("p", { class: "hint" }, others === "closed" ? t("Documents without a rule and without a field access are read by owners only.") : t("Documents without a rule and without a field access are read by everyone."), " ", t("Rules are changed on the command line:"), " ", h("code", {}, "ragkit access grant group:hr --path 'hr/**'"))].filter(Boolean);
}

async function showServer(body) {
  const [{ version, model, models, pipeline, embedder, keys, limits }, known] = await Promise.all([get("settings"), get("bases")]);
  const row = (term, ...value) => [h("dt", {}, term), h("dd", {}, value)];
  body.replaceChildren(
    h("p", { class: "note" }, t("The server reads its settings when it starts: start it again with an option to change one. Keys are variables of its environment, and are never shown.")),
    h("h3", {}, t("Model")),
    h("dl", { class: "facts" }, row(t("Answers"), plain(model), " ", h("code", {}, "--model")), models.length > 0 && row(t("Also offered"), plain(models.join(", "))),
      keys.map(({ service, variables, set }) => row(t("Key of {service}", { service }), set ? [h("code", {}, set), ` ${t("is set")}`] : [t("not set"), " ", h("code", {}, variables[0])])),
      row(t("Pipeline"), plain(pipeline)), row(t("Embedder"), plain(embedder)), row(t("Server"), plain(`ragkit ${version}`))),
    h("h3", {}, t("Limits")),
    h("dl", { class: "facts" }, limits.map(({ name, value, unit, option }) => row(LIMITS[name] ?? name, value === null ? t("no limit") : UNITS[unit](value), " ", h("code", {}, option)))),
    h("h3", {}, t("Knowledge bases")), ...baseList(known, body));
}
