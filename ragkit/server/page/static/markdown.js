// A small Markdown renderer that creates DOM nodes. HTML is shown as text, images become links, and links are limited
// to http, https and mailto. It runs in one pass with limited nesting, so that no answer can block the page.

import { h, plain } from "./dom.js";

const MAX_DEPTH = 6;
const SCHEMES = new Set(["http:", "https:", "mailto:"]);
const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^\s`]*)[^`]*$/;
const ITEM = /^( {0,8})([-*+]|\d{1,9}[.)])(?:[ \t]+|$)(.*)$/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$/;
const RULE = /^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const INDENTED = /^ {4,}\S/;
const MARKS_AT_END = /((?: \[\d{1,4}\])+)$/;
const QUOTE = /^ {0,3}> ?/;
const DIVIDER = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

/**
 * Renders Markdown into an element. Unchanged blocks keep their nodes, so that a selection survives the next update
 * of a streamed answer. `cite(n)` returns the node of the citation [n], or null for plain text.
 */
export function renderInto(element, text, cite) {
  const blocks = splitBlocks(String(text).replace(/\r\n?/g, "\n").split("\n"));
  const kept = element.markdown ?? [];
  let same = 0;
  while (same < blocks.length && same < kept.length && kept[same] === blocks[same].raw) same += 1;
  while (element.childNodes.length > same) element.lastChild.remove();
  element.append(...blocks.slice(same).map((block) => renderBlock(block, cite, 0)));
  element.markdown = blocks.map((block) => block.raw);
}

/** The blocks of a document: {node, first, last}, with lines counted from 0. Numbers in brackets are no citations. */
export function documentBlocks(text) {
  return splitBlocks(text.split("\n")).map((block) => ({ node: renderBlock(block, () => null, 0), first: block.at, last: block.at + block.lines.length - 1 }));
}

/** Renders all blocks again, for other citations. */
export function rerender(element, text, cite) {
  element.markdown = [];
  renderInto(element, text, cite);
}

// blocks

function splitBlocks(lines) {
  const blocks = [];
  for (let at = 0; at < lines.length; ) {
    if (!lines[at].trim()) {
      at += 1;
      continue;
    }
    const [kind, end] = findBlock(lines, at);
    blocks.push({ kind, at, lines: lines.slice(at, end), raw: lines.slice(at, end).join("\n") });
    at = end;
  }
  return blocks;
}

function findBlock(lines, at) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return ["code", fenceEnd(lines, at + 1, fence[1])];
  if (HEADING.test(line)) return ["heading", at + 1];
  if (RULE.test(line)) return ["rule", at + 1];
  if (QUOTE.test(line)) return ["quote", runEnd(lines, at, (text) => QUOTE.test(text))];
  if (ITEM.test(line)) return ["list", listEnd(lines, at)];
  if (line.includes("|") && DIVIDER.test(lines[at + 1] ?? "") && lines[at + 1].includes("-")) {
    return ["table", runEnd(lines, at, (text) => text.includes("|"))];
  }
  if (INDENTED.test(line)) return ["indented", runEnd(lines, at, (text) => INDENTED.test(text))];
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !endsParagraph(lines[end]) && !(INDENTED.test(lines[end]) && /:\s*$/.test(lines[end - 1]))) end += 1;
  return ["paragraph", end];
}

const endsParagraph = (line) => FENCE.test(line) || HEADING.test(line) || QUOTE.test(line) || RULE.test(line) || /^ {0,3}(?:[-*+]|1[.)])[ \t]+\S/.test(line);

function fenceEnd(lines, at, mark) {
  while (at < lines.length && !(lines[at].trim().startsWith(mark) && !lines[at].trim().replaceAll(mark[0], ""))) at += 1;
  return Math.min(at + 1, lines.length);
}

function runEnd(lines, at, belongs) {
  while (at < lines.length && lines[at].trim() && belongs(lines[at])) at += 1;
  return at;
}

function listEnd(lines, at) {
  const kind = /\d/.test(ITEM.exec(lines[at])[2]);
  let end = at + 1;
  for (let look = end; look < lines.length; look += 1) {
    const line = lines[look];
    const item = ITEM.exec(line);
    if (item && item[1].length < 2 && /\d/.test(item[2]) !== kind) break;
    const blankBefore = !lines[look - 1].trim();
    if (line.trim() && !item && !/^ {2,}/.test(line) && (blankBefore || endsParagraph(line))) break;
    if (line.trim()) end = look + 1;
  }
  return end;
}

function renderBlock(block, cite, depth) {
  const inner = (text) => renderInline(text, cite, 0);
  switch (block.kind) {
    case "code":
      return buildCode(block.lines);
    case "indented": { // citations after the last line are no code
      const code = block.lines.map((line) => line.slice(4)).join("\n");
      const marks = MARKS_AT_END.exec(code)?.[1] ?? "";
      return h("div", {}, h("pre", { tabindex: 0 }, h("code", {}, plain(code.slice(0, code.length - marks.length)))), marks && h("p", {}, inner(marks.trim())));
    }
    case "heading": {
      const [, marks, text] = HEADING.exec(block.lines[0]);
      return h(`h${Math.min(marks.length + 2, 6)}`, {}, inner(text)); // h1 and h2 are used by the page
    }
    case "rule":
      return h("hr");
    case "quote":
      return h("blockquote", {}, renderNested(block.lines.map((line) => line.replace(QUOTE, "")), cite, depth));
    case "list":
      return buildList(block.lines, cite, depth);
    case "table":
      return buildTable(block.lines, inner);
    default:
      return h("p", {}, inner(block.lines.map((line) => line.trim()).join("\n")));
  }
}

function renderNested(lines, cite, depth) {
  if (depth >= MAX_DEPTH) return plain(lines.join("\n"));
  return splitBlocks(lines).map((block) => renderBlock(block, cite, depth + 1));
}

function buildCode(lines) {
  const [, mark, language] = FENCE.exec(lines[0]);
  const last = lines.at(-1).trim();
  const closed = lines.length > 1 && last.startsWith(mark) && !last.replaceAll(mark[0], "");
  const body = lines.slice(1, closed ? -1 : undefined).join("\n");
  return h("pre", { tabindex: 0, "data-language": plain(language) || null }, h("code", {}, plain(body)));
}

function buildList(lines, cite, depth) {
  const first = ITEM.exec(lines[0]);
  const ordered = /\d/.test(first[2]);
  const items = [];
  let width = 0;
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item && (!items.length || item[1].length < Math.max(width, 2))) {
      width = item[1].length + item[2].length + 1;
      items.push([item[3]]);
    } else {
      items.at(-1).push(line.replace(new RegExp(`^ {0,${width}}`), ""));
    }
  }
  return h(ordered ? "ol" : "ul", { start: ordered && parseInt(first[2], 10) !== 1 ? parseInt(first[2], 10) : null },
    items.map((item) => h("li", {}, unwrapParagraph(renderNested(item, cite, depth)))));
}

/** Unwraps the first paragraph of a list item. */
function unwrapParagraph(nodes) {
  if (typeof nodes === "string" || nodes[0]?.tagName !== "P") return nodes;
  return [...nodes[0].childNodes, ...nodes.slice(1)];
}

function buildTable(lines, inner) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => inner(cell.trim().replaceAll("\\|", "|")));
  const [head, , ...rows] = lines;
  return h("div", { class: "table", role: "group", tabindex: 0, "aria-label": "Table" }, h("table", {},
    h("thead", {}, h("tr", {}, cells(head).map((cell) => h("th", { scope: "col" }, cell)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, cells(row).map((cell) => h("td", {}, cell)))))));
}

// inline

const TOKEN = new RegExp([
  "(?<escaped>\\\\[!-/:-@[-`{-~])",
  "(?<code>(?<ticks>`{1,8})(?!`))",
  "(?<cited>\\[\\d{1,4}(?:\\s*,\\s*\\d{1,4})*\\](?!\\())",
  "(?<image>!?\\[(?=[^\\]]))",
  "(?<auto><(?:https?://|mailto:)[^\\s<>]{1,2000}>)",
  "(?<url>\\bhttps?://[^\\s<>\"'`|\\]]{1,2000})",
  "(?<mark>\\*\\*|__|~~|\\*|_)",
  "(?<newline> *\\n)",
].join("|"), "g");

const LINK = /\[((?:[^[\]\\\n]|\\.|\[[^[\]\n]*\]){0,500})\]\(\s*<?([^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)*)>?(?:\s+(?:"[^"\n]*"|'[^'\n]*'))?\s*\)/y;
const ELEMENT = { "**": "strong", __: "strong", "~~": "del", "*": "em", _: "em" };

function renderInline(text, cite, depth) {
  if (depth > MAX_DEPTH) return [plain(text)];
  const nodes = [];
  const unclosed = new Set();
  const token = new RegExp(TOKEN);
  let from = 0;
  for (let match = token.exec(text); match; match = token.exec(text)) {
    const parsed = readToken(match, text, { cite, depth, unclosed });
    if (!parsed) continue;
    nodes.push(plain(text.slice(from, match.index)), ...parsed.nodes);
    from = token.lastIndex = parsed.end;
  }
  nodes.push(plain(text.slice(from)));
  return nodes.filter((node) => node !== "");
}

/** The nodes of a token and its end; null if the token is plain text. */
function readToken(match, text, state) {
  const { groups, index } = match;
  const end = index + match[0].length;
  if (groups.escaped) return { nodes: [match[0][1]], end };
  if (groups.newline) return { nodes: [h("br")], end };
  if (groups.code) return readCode(text, end, groups.ticks, state);
  if (groups.cited) return readCitations(match[0], end, state);
  if (groups.image) return readLink(match[0], text, index, state);
  if (groups.auto) return { nodes: [link(match[0].slice(1, -1), null)], end };
  if (groups.url) {
    const url = match[0].replace(/[.,;:!?)*_~]+$/, "");
    return { nodes: [link(url, null)], end: index + url.length };
  }
  return readMark(groups.mark, text, index, state);
}

function readCode(text, from, ticks, { unclosed }) {
  const close = unclosed.has(ticks) ? -1 : text.indexOf(ticks, from);
  if (close < 0) {
    unclosed.add(ticks);
    return null;
  }
  return { nodes: [h("code", {}, plain(text.slice(from, close)))], end: close + ticks.length };
}

function readCitations(mark, end, { cite }) {
  const nodes = mark.slice(1, -1).split(",").map((number) => cite(parseInt(number, 10)));
  return nodes.includes(null) ? null : { nodes, end };
}

function readLink(mark, text, index, { depth }) {
  LINK.lastIndex = index + mark.length - 1;
  const found = LINK.exec(text);
  if (!found) return null;
  const end = LINK.lastIndex;
  const image = mark[0] === "!";
  const label = image ? [`image: ${plain(found[1]) || "no description"}`] : renderInline(found[1], () => null, depth + 1).map(unwrapLink);
  const node = link(found[2], label);
  return { nodes: [node ?? plain(found[0])], end };
}

/** Links cannot be nested. */
const unwrapLink = (node) => (node instanceof Element && node.matches(".link") ? node.textContent : node);

function readMark(mark, text, index, { cite, depth, unclosed }) {
  const from = index + mark.length;
  if (unclosed.has(mark) || /\s/.test(text[from] ?? " ")) return null;
  if (mark[0] === "_" && /[\p{L}\p{N}]/u.test(text[index - 1] ?? "")) return null;
  let close = text.indexOf(mark, from + 1);
  while (close > 0 && /\s/.test(text[close - 1])) close = text.indexOf(mark, close + 1);
  if (mark.length === 1 && close > 0 && text[close + 1] === mark) close = text.indexOf(mark, close + 2);
  if (close < 0) {
    unclosed.add(mark);
    return null;
  }
  return { nodes: [h(ELEMENT[mark], {}, renderInline(text.slice(from, close), cite, depth + 1))], end: close + mark.length };
}

/**
 * A link followed by its host, or null for other URL schemes.
 * The host is shown as parsed by the browser: no user name before an @, no look-alike letters.
 */
export function link(address, label) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  if (!SCHEMES.has(url.protocol)) return null;
  const target = url.protocol === "mailto:" ? url.pathname : url.host;
  const shown = label ?? [plain(address.length > 80 ? `${address.slice(0, 77)}...` : address)];
  return h("span", { class: "link" },
    h("a", { href: url.href, target: "_blank", rel: "noopener noreferrer nofollow", title: plain(url.href.slice(0, 500)) }, shown),
    h("span", { class: "host" }, ` (${plain(target.slice(0, 120))})`));
}
