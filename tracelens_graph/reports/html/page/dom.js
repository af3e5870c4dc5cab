// @ts-check
// Elements of a page. Whatever comes of a trace is set as text, never as markup.

/** @param {string} id */
export const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** Append what is there: of lists all, of texts their letters. @param {Element} node @param {Child[]} inside */
export const put = (node, ...inside) => {
  for (const one of inside) {
    if (Array.isArray(one)) put(node, ...one);
    else if (one != null && one !== false) node.append(one instanceof Node ? one : String(one));
  }
};

/** @param {Element} node @param {Child[]} inside */
export const refill = (node, ...inside) => {
  node.replaceChildren();
  put(node, ...inside);
};

/** @param {HTMLElement | SVGElement} node @param {Props} props */
const set = (node, props) => {
  for (const [key, value] of Object.entries(props)) {
    if (value == null) continue;
    if (key === "fill") node.style.setProperty("--fill", `var(--${value})`);
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), /** @type {EventListener} */ (value));
    else if (node instanceof HTMLElement && key in node && key !== "role") Object.assign(node, { [key]: value });
    else node.setAttribute(key, String(value));
  }
};

// An element: its tag with classes behind dots, then what it has, if anything, and what is in it.
/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag | `${Tag}.${string}`} what
 * @param {Props | Child} [props]
 * @param {Child[]} inside
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export const el = (what, props, ...inside) => {
  const [tag, ...classes] = what.split("."),
    made = document.createElement(tag),
    isProps = props?.constructor === Object;
  if (classes.length) made.className = classes.join(" ");
  if (isProps) set(made, /** @type {Props} */ (props));
  put(made, isProps ? null : /** @type {Child} */ (props), inside);
  return /** @type {HTMLElementTagNameMap[Tag]} */ (made);
};

/**
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Props} props
 * @param {Child[]} inside
 * @returns {SVGElementTagNameMap[Tag]}
 */
export const svg = (tag, props, ...inside) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(made, props);
  put(made, ...inside);
  return made;
};

/** @param {string} text @param {(event: MouseEvent) => unknown} act @param {Props} [props] */
export const button = (text, act, props = {}) => el("button", { type: "button", onclick: act, ...props }, text);

// A list to choose from: value -> what it says.
/** @param {string} label @param {[string | number, string][]} options @param {(value: string) => void} chosen */
export const choice = (label, options, chosen) => {
  const made = el("select", { "aria-label": label });
  made.addEventListener("change", () => chosen(made.value));
  put(
    made,
    options.map(([value, says]) => el("option", { value }, says)),
  );
  return made;
};

/** What a colour means. @param {string} fill @param {Child[]} text */
export const key = (fill, ...text) => el("span.key", el("i.swatch", { fill }), text);

/** A bar that fills a share of its place. @param {number} share @param {Props} [props] */
export const filled = (share, props = {}) => {
  const made = el("i", props);
  made.style.width = `${100 * share}%`;
  return made;
};

// A plain table under a caption. headings: text, and whether numbers are below it.
/** @param {string} caption @param {[string, boolean][]} headings @param {Child} rows */
export const plainTable = (caption, headings, rows) =>
  el(
    "figure",
    el("figcaption", caption),
    el(
      "table.plain",
      el(
        "thead",
        el(
          "tr",
          headings.map(([text, isNumber]) => el(isNumber ? "th.number" : "th", { scope: "col" }, text)),
        ),
      ),
      el("tbody", rows),
    ),
  );

// Where an element scrolls on, below or to the right, its content fades.
/** @template {HTMLElement} One @param {One} element @returns {One} */
export const fading = (element) => {
  let asked = 0;
  const mark = () => {
    asked = 0;
    const { scrollTop, scrollLeft, clientHeight, clientWidth, scrollHeight, scrollWidth } = element;
    element.classList.toggle("more-below", scrollTop + clientHeight < scrollHeight - 2);
    element.classList.toggle("more-right", scrollLeft + clientWidth < scrollWidth - 2);
  };
  const ask = () => {
    asked ||= requestAnimationFrame(mark);
  };
  element.addEventListener("scroll", ask, { passive: true });
  new ResizeObserver(ask).observe(element);
  new MutationObserver(ask).observe(element, { childList: true, subtree: true });
  return element;
};

export const Tip = {
  /** @param {{ clientX: number, clientY: number }} event @param {Lines} lines */
  at(event, lines) {
    const tip = byId("tip");
    refill(
      tip,
      lines.map(([of, text]) => el("div", { class: of }, text)),
    );
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const x = event.clientX + 14,
      y = event.clientY + 16;
    tip.style.left = `${Math.max(4, x + width > innerWidth - 4 ? event.clientX - width - 10 : x)}px`;
    tip.style.top = `${Math.max(4, y + height > innerHeight - 4 ? event.clientY - height - 10 : y)}px`;
  },

  hide() {
    byId("tip").hidden = true;
  },

  /** What hovering over an element shows. @param {() => Lines} says @returns {Props} */
  of: (says) => ({ onpointermove: (event) => Tip.at(event, says()), onpointerleave: Tip.hide }),
};

// A sentence as a headline: its begin in large type, and the rest in a line below it.
/** @param {string} text */
export const headline = (text) => {
  const [, name, line] = /^(.{1,60}?)[:;] (.*)$/s.exec(text) ?? [null, text, ""];
  return [el("h2", name), line && el("p.dim", line.charAt(0).toUpperCase() + line.slice(1))];
};

let announcing = 0;

// Copy a text, and say so for a moment: on the button that was pressed, and to who cannot see it.
/** @param {string} text @param {EventTarget | null} pressed */
export const copyText = async (text, pressed) => {
  let isCopied = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // A file that was opened from disk may have no clipboard of its own.
    const area = el("textarea", { value: text });
    document.body.append(area);
    area.select();
    isCopied = document.execCommand("copy");
    area.remove();
  }
  const announced = byId("announced");
  announced.textContent = isCopied ? "copied" : "could not be copied";
  /** @type {HTMLElement} */ (pressed).dataset.announced = announced.textContent;
  clearTimeout(announcing);
  announcing = setTimeout(() => {
    announced.textContent = "";
    for (const one of document.querySelectorAll("[data-announced]")) one.removeAttribute("data-announced");
  }, 1200);
};

/** A command that a click copies. @param {string} text */
export const command = (text) =>
  button(text, (event) => copyText(text, event.currentTarget), { class: "snippet", title: "Copy" });
