// Finds a quote in the text of elements, and marks it.

import { h } from "./dom.js";

const MAX_QUOTE = 20_000;

/**
 * Wraps a quote in `mark` elements. Only letters and digits are compared, because the view may have other spaces and
 * signs than the indexed text; a quote that does not stand in one piece is looked for line by line and cell by cell.
 *
 * @param root where marks are allowed
 * @param within the elements of it that are searched, in order
 * @param near where the quote stands in the text, from 0 to 1, for text that occurs several times
 */
export function markText(root, within, quote, near = 0) {
  const text = readText(within);
  const wanted = fold(quote.slice(0, MAX_QUOTE)).key;
  if (!wanted) return [];
  let ranges = [];
  const at = nearest(text.key, wanted, within[0] === root ? near * text.key.length : 0);
  if (at >= 0) ranges = [[at, at + wanted.length]];
  else {
    let from = 0;
    for (const cell of quote.slice(0, MAX_QUOTE).split(/\n| \| |; (?=[^:;\n]{1,100}: )|(?<=^|; )[^:;\n]{1,100}: /).map((part) => fold(part).key)) {
      const start = cell.length > 1 ? text.key.indexOf(cell, from) : -1;
      if (start < 0) continue;
      ranges.push([start, start + cell.length]);
      from = start + cell.length;
    }
  }
  return ranges.flatMap(([start, end]) => pieces(text, start, end)).reverse().map(wrap).reverse();
}

/** The letters and digits of elements, and the text node and offset of each. */
function readText(elements) {
  const [keys, nodes, offsets] = [[], [], []];
  for (const element of elements) {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const { key, places } = fold(node.data);
      keys.push(key);
      for (const place of places) {
        nodes.push(node);
        offsets.push(place);
      }
    }
  }
  return { key: keys.join(""), nodes, offsets };
}

function fold(text) {
  let key = "";
  const places = [];
  for (const { 0: char, index } of text.matchAll(/[\p{L}\p{N}]/gu)) {
    const lower = char.toLowerCase();
    const folded = lower.length === char.length ? lower : char;
    key += folded;
    for (let i = 0; i < folded.length; i += 1) places.push(index + i);
  }
  return { key, places };
}

function nearest(key, part, wanted) {
  const [before, behind] = [key.lastIndexOf(part, wanted), key.indexOf(part, wanted)];
  if (before < 0 || behind < 0) return Math.max(before, behind);
  return wanted - before < behind - wanted ? before : behind;
}

/** The parts of text nodes between two positions. */
function pieces({ nodes, offsets }, start, end) {
  const parts = [];
  for (let i = start; i < end; i += 1) {
    const last = parts.at(-1);
    if (last?.node === nodes[i]) last.to = offsets[i] + 1;
    else parts.push({ node: nodes[i], from: offsets[i], to: offsets[i] + 1 });
  }
  return parts;
}

/** Later parts of a node must be wrapped before earlier ones. */
function wrap({ node, from, to }) {
  const part = node.splitText(from);
  part.splitText(to - from);
  const mark = h("mark", {});
  part.replaceWith(mark);
  mark.append(part);
  return mark;
}
