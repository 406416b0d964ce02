// Quoted rows of tables, `name: value; name: value [1]`, as tables of Markdown.

const MIN_CELLS = 3; // of one row alone: fewer are a sentence with a colon
const PIECE = /^([^:;|\n]{1,60}): (\S.*)$/;

/** The text of an answer that quotes, with consecutive rows of the same names as one table. */
export function recordsAsTables(text) {
  const lines = [];
  const rows = text.split("\n").map((line) => [line, readRow(line)]);
  const namesOf = (at) => rows[at]?.[1]?.map(([name]) => name).join(" | ") ?? "";
  let names = "";
  for (const [at, [line, row]] of rows.entries()) {
    const these = row && (row.length >= MIN_CELLS || [namesOf(at - 1), namesOf(at + 1)].includes(namesOf(at))) ? namesOf(at) : "";
    const cells = these ? row : null;
    if (cells && these !== names) lines.push("", `| ${these} |`, `|${" --- |".repeat(cells.length)}`);
    if (!cells && names) lines.push("");
    lines.push(cells ? `| ${cells.map(([, value]) => value.replaceAll("|", "\\|")).join(" | ")} |` : line);
    names = these;
  }
  return lines.join("\n");
}

/** [name, value] of each cell of a row, or null for other text. A piece without a name belongs to the value before. */
function readRow(line) {
  const cells = [];
  for (const piece of line.replace(/^- /, "").split("; ")) {
    const match = PIECE.exec(piece);
    if (match) cells.push([match[1], match[2]]);
    else if (cells.length) cells.at(-1)[1] += `; ${piece}`;
    else return null;
  }
  return cells.length > 1 && new Set(cells.map(([name]) => name)).size === cells.length ? cells : null;
}
