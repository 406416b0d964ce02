// The words of the page in the language of the browser. English is in the modules; another language is one JSON file.

const LANGUAGES = ["de", "es", "fr", "ja"];

/** The language of the page: the first of the browser's that there is. */
export const language = navigator.languages.map((tag) => tag.split("-")[0].toLowerCase()).find((tag) => tag === "en" || LANGUAGES.includes(tag)) ?? "en";
const translated = language === "en" ? {} : await fetch(`static/words-${language}.json`).then((response) => response.json()).catch(() => ({}));
const plurals = new Intl.PluralRules(language);
/** For numbers and dates: the region of the browser, where it speaks the language of the page. */
export const locale = navigator.languages.find((tag) => tag.toLowerCase().startsWith(language)) ?? language;
document.documentElement.lang = language;

/** Words with the values of `{name}`; those in English are the key. */
export function t(english, values = {}) {
  return fill(translated[english] ?? english, values);
}

/** Words with a number, from `singular|plural`; `{n}` is the number. */
export function tn(english, n, values = {}) {
  const forms = (translated[english] ?? english).split("|");
  const form = plurals.select(n) === "one" ? forms[0] : forms.at(-1);
  return fill(form, { n: Number(n).toLocaleString(locale), ...values });
}

const fill = (text, values) => text.replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole));

/** A fixed message of the server in the language of the page; without a translation, in English. */
export const said = (text) => translated[text] ?? text;

for (const element of document.querySelectorAll("[data-t]")) element.textContent = t(element.textContent.trim());
for (const element of document.querySelectorAll("[data-t-label]")) {
  for (const name of ["aria-label", "placeholder"]) if (element.hasAttribute(name)) element.setAttribute(name, t(element.getAttribute(name)));
}
