// Requests to the server of this page.

import { t } from "./words.js";

const TOKEN_KEY = "ragkit.token";
let token = sessionStorage.getItem(TOKEN_KEY) ?? "";
let askForToken = async () => "";

/** Sets the function that asks the user for a token; it resolves to "" if the user cancels. */
export function onTokenRequired(callback) {
  askForToken = callback;
}

/** Whether the page sends a token. */
export const hasToken = () => token !== "";

/** Sends this token from now on. */
export function useToken(text) {
  token = text;
  sessionStorage.setItem(TOKEN_KEY, text);
}

/** A failed request. The message is one line that says what to do. */
export class ApiError extends Error {
  constructor(message, status = 0, wait = 0) {
    super(message);
    this.status = status;
    this.wait = wait; // seconds after which the server wants the request again
  }
}

async function request(method, path, { body, file, signal, refused = false } = {}) {
  const headers = { Accept: "application/json, text/event-stream" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (file) headers["Content-Type"] = "application/octet-stream";
  const sent = token;
  if (sent) headers.Authorization = `Bearer ${sent}`;
  let response;
  try {
    response = await fetch(path, { method, headers, signal, body: file ?? (body === undefined ? undefined : JSON.stringify(body)), credentials: "omit", referrerPolicy: "no-referrer" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(t("The server is not reachable. Check that ragkit serve is running, then try again."));
  }
  if (response.status === 401) {
    if (token && token !== sent) return request(method, path, { body, file, signal, refused: true }); // entered since
    token = await askForToken(refused || sent !== "");
    if (token) useToken(token);
    else throw new ApiError(t("The server requires a token. Reload the page to enter it."), 401);
    return request(method, path, { body, file, signal, refused: true });
  }
  if (!response.ok) throw await toApiError(response);
  return response;
}

async function toApiError(response) {
  const content = await response.json().catch(() => null);
  const message = content?.error?.message ?? t("The server responded with status {n}. See its log.", { n: response.status });
  return new ApiError(String(message), response.status, Number(response.headers.get("retry-after")) || 0);
}

export const get = async (path, signal) => (await request("GET", path, { signal })).json();
export const send = async (method, path, body, signal) => (await request(method, path, { body, signal })).json();
export const fetchBlob = async (path) => (await request("GET", path)).blob();

/** Sends a file as the body of a request; waits while the server has no room for it. */
export async function sendFile(path, file, signal) {
  for (;;) {
    try {
      return await (await request("POST", path, { file, signal })).json();
    } catch (error) {
      if (error.status !== 429 && error.status !== 503) throw error;
      await new Promise((resolve) => setTimeout(resolve, 1000 * Math.max(error.wait, 1)));
      signal?.throwIfAborted();
    }
  }
}

/** A path with its query string, without empty parameters. */
export function buildPath(base, query = {}) {
  const parameters = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return parameters.length ? `${base}?${new URLSearchParams(parameters)}` : base;
}

/** The server-sent events of a POST request, or without a body, of a GET: {event, data}, with data parsed from JSON. */
export async function* streamEvents(url, body, signal) {
  const response = await request(body === undefined ? "GET" : "POST", url, { body, signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let event = "message";
  let data = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines.map((text) => text.replace(/\r$/, ""))) {
      if (line.startsWith("event:")) event = line.slice(6).trim();
      else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
      else if (line === "" && data.length) {
        yield { event, data: JSON.parse(data.join("\n")) };
        [event, data] = ["message", []];
      }
    }
  }
}
