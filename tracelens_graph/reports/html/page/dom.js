// @ts-check
// Elements, and numbers as people read them. Whatever comes of a trace is set as text, never as markup.
/** @type {(id: string) => any} */
const byId = (id) => document.getElementById(id);

/** @type {(tag: string, props?: Record<string, any>, ...inside: any[]) => any} */
const el = (tag, props = {}, ...inside) => {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value == null) continue;
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key in made && key !== "role" && key !== "list") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...inside.filter((one) => one != null).map((one) => (one instanceof Node ? one : String(one))));
  return made;
};

const actButton = (text, act) => el("button", { type: "button", onclick: act }, text);

/** @type {(tag: string, props?: Record<string, any>, ...inside: any[]) => any} */
const svg = (tag, props = {}, ...inside) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(props)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value != null) made.setAttribute(key, value);
  }
  made.append(...inside.filter((one) => one != null));
  return made;
};

const Show = {
  /** @type {[string, number][]} */
  UNITS: [
    ["s", 1e9],
    ["ms", 1e6],
    ["µs", 1e3],
    ["ns", 1],
  ],

  count: (n) => n.toLocaleString("en-US"),

  // A span in the unit that leaves one to three digits before the point.
  span(ns) {
    const [unit, size] = Show.UNITS.find(([, one]) => Math.abs(ns) >= one) || Show.UNITS[3];
    return `${(ns / size).toLocaleString("en-US", { minimumFractionDigits: size > 1 ? 3 : 0, maximumFractionDigits: 3 })} ${unit}`;
  },

  // Bytes in the unit that leaves one to four digits before the point.
  bytes: (bytes) => Show.bytesAs(bytes, bytes, 2),

  // The same in the unit that suits another number of bytes: that of the greatest one beside it.
  bytesAs(bytes, other, digits) {
    const power = Show.power(other);
    const unit = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"][power];
    return `${(bytes / 1024 ** power).toLocaleString("en-US", { minimumFractionDigits: power ? digits : 0, maximumFractionDigits: power ? digits : 0 })} ${unit}`;
  },

  // Of 1024: 0 for bytes, 1 for KiB.
  power: (bytes) => Math.min(Math.floor(Math.log2(Math.max(Math.abs(bytes), 1)) / 10), 5),

  // A moment, in ms from the zero of Perfetto UI, to the nanosecond.
  moment: (ns) => `${(ns / 1e6).toLocaleString("en-US", { minimumFractionDigits: 6, maximumFractionDigits: 6 })} ms`,

  percent: (part, whole) => `${whole ? ((100 * part) / whole).toFixed(1) : "0.0"} %`,

  number: (value, digits) =>
    value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }),

  // A name within a room: first goes what all such names begin with.
  LEAD: /^(?:autograd::engine::evaluate_function: |(?:\w+::)+|nccl\w*?Kernel_)(?=.)/,

  // Of modules of one class, the number is what tells them apart.
  label(text, room) {
    if (text.length <= room) return text;
    const [number] = /^[A-Z]\w*(_\d+)$/.exec(text)?.slice(1) ?? [];
    if (!number) return Show.cut(text.replace(Show.LEAD, ""), room);
    const head = room - number.length - 1;
    return head < 0 ? "" : `${head < 3 ? "" : text.slice(0, head)}…${number}`;
  },

  cut: (text, room) => (text.length <= room ? text : room < 3 ? "" : `${text.slice(0, room - 1)}…`),
};

// A plain table under a caption. headings: [text, whether it is a number]; rows: elements of the body.
const plainTable = (caption, headings, rows) =>
  el(
    "figure",
    {},
    el("figcaption", {}, caption),
    el(
      "table",
      { class: "plain" },
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          ...headings.map(([text, isNumber]) => el("th", { scope: "col", class: isNumber ? "number" : "" }, text)),
        ),
      ),
      el("tbody", {}, ...rows),
    ),
  );

const Tip = {
  timer: 0,

  at(event, lines) {
    const tip = byId("tip");
    tip.replaceChildren(...lines.map(([kind, text]) => el("div", { class: kind }, text)));
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
};

// Keys that zoom a view around the pointer, and move it.
const zoomKeys = (view) => {
  const middle = view.mouse ?? view.width / 2;
  return {
    w: () => view.zoom(0.7, middle),
    s: () => view.zoom(1 / 0.7, middle),
    a: () => view.pan(-0.15),
    d: () => view.pan(0.15),
    ArrowLeft: () => view.pan(-0.15),
    ArrowRight: () => view.pan(0.15),
  };
};

// The wheel zooms a view around the pointer, and moves it with shift or sideways.
const moveByWheel = (element, view) =>
  element.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        view.pan((event.deltaX || event.deltaY) / view.width);
      } else view.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), event.offsetX);
    },
    { passive: false },
  );

// Copy a text, and say so for a moment: on the button that was pressed, and to who cannot see it.
const copyText = async (text, button) => {
  let isCopied = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = el("textarea", { value: text });
    document.body.append(area);
    area.select();
    isCopied = document.execCommand("copy");
    area.remove();
  }
  const told = byId("told");
  told.textContent = isCopied ? "copied" : "could not be copied";
  button.dataset.told = told.textContent;
  clearTimeout(Tip.timer);
  Tip.timer = setTimeout(() => {
    told.textContent = "";
    for (const one of document.querySelectorAll("[data-told]")) one.removeAttribute("data-told");
  }, 1200);
};

// A command that a click copies.
const command = (text) =>
  el(
    "button",
    { type: "button", class: "snippet", title: "Copy", onclick: (event) => copyText(text, event.currentTarget) },
    text,
  );
