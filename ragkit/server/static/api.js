// Talks to the server that this page came from, and to nobody else.

const KEY = "ragkit.token";
let token = sessionStorage.getItem(KEY) ?? "";
let askForToken = async () => "";

/** Who is asked when the server wants a token; gives "" when the person does not have one. */
export function onTokenWanted(ask) {
  askForToken = ask;
}

/** What went wrong, in one line that says what to do. */
export class Trouble extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

async function request(method, path, { body, signal, refused = false } = {}) {
  const headers = { Accept: "application/json, text/event-stream" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (token) headers.Authorization = `Bearer ${token}`;
  let response;
  try {
    response = await fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body), credentials: "omit", referrerPolicy: "no-referrer" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Trouble("The server does not answer. Is ragkit serve still running? Start it and try again.");
  }
  if (response.status === 401) {
    token = await askForToken(refused || token !== "");
    if (token) sessionStorage.setItem(KEY, token);
    else throw new Trouble("The server wants a token. Reload the page to enter it.", 401);
    return request(method, path, { body, signal, refused: true });
  }
  if (!response.ok) throw await trouble(response);
  return response;
}

async function trouble(response) {
  const said = await response.json().catch(() => null);
  const message = said?.error?.message ?? `The server answered ${response.status}. Its log says why.`;
  return new Trouble(String(message), response.status);
}

export const get = async (path, signal) => (await request("GET", path, { signal })).json();
export const send = async (method, path, body, signal) => (await request(method, path, { body, signal })).json();
export const fetchBlob = async (path) => (await request("GET", path)).blob();

/** A path with its query; what is empty is left out. */
export function path(base, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return given.length ? `${base}?${new URLSearchParams(given)}` : base;
}

/** The server-sent events that answer a POST: {event, data}, data read as JSON. */
export async function* events(address, body, signal) {
  const response = await request("POST", address, { body, signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let event = "message";
  let data = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines.map((one) => one.replace(/\r$/, ""))) {
      if (line.startsWith("event:")) event = line.slice(6).trim();
      else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
      else if (line === "" && data.length) {
        yield { event, data: JSON.parse(data.join("\n")) };
        [event, data] = ["message", []];
      }
    }
  }
}
