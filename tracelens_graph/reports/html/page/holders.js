// @ts-check
// Who held the memory of a device at its peak: by module, op or line of Python, as bars.
import { button, choice, el, filled, put, refill } from "./dom.js";
import { Show } from "./show.js";

/** @typedef {import("./events.js").Trace} Trace */
/** @typedef {import("./moments.js").Device} Device */

const MOST = 200;
// Column of the table of the peak -> how it is asked for.
const WAYS = { module_path: "by module", class: "by class of module", op: "by op", line: "by line" };
const BEFORE = "(before the recording)";

/** Of a path that has no room its end, which says most. @param {string} path @param {number} room */
const endOf = (path, room) => {
  if (path.length <= room) return path;
  const parts = path.split("/");
  let end = parts.pop() ?? "";
  while (parts.length && parts[parts.length - 1].length + end.length + 3 <= room) end = `${parts.pop()}/${end}`;
  return parts.length ? `…/${end}` : end;
};

export class Holders {
  // The way that is chosen, and how they are asked for.
  way = "module_path";
  ways = Object.keys(WAYS);

  /** @param {HTMLElement} place @param {Trace} trace @param {Device[]} devices */
  constructor(place, trace, devices) {
    this.place = place;
    this.trace = trace;
    this.devices = devices;
    this.device = devices[0];
    this.table = trace.body.tables.find((one) => one.name === "memory_peak");
    this.title = el("h2");
    this.says = el("p.dim");
    this.bars = el("div.bars", { tabIndex: 0 });
    this.buttons = Object.entries(WAYS).map(([way, label]) => button(label, () => this.by(way)));
    /** @type {[number, string][]} */
    const titles = devices.map(({ title }, k) => [k, title]);
    this.choice = choice("Device", titles, (k) => this.show(devices[Number(k)]));
    put(place, this.title, this.says, el("div.bar", devices.length > 1 && this.choice, this.buttons), this.bars);
    const paths = this.table?.columns.find((one) => one.name === "module_path");
    this.by(new Set(Array.from(paths?.cells ?? [])).size > 1 ? this.way : "op");
    this.show(this.device);
  }

  /** @param {string} way */
  by(way) {
    this.way = way;
    this.ways.forEach((one, k) => this.buttons[k].setAttribute("aria-pressed", String(one === way)));
    this.draw();
  }

  /** @param {Device} device */
  show(device) {
    const { time, allocated, reserved, peak, title } = device;
    this.device = device;
    this.choice.value = String(this.devices.indexOf(device));
    this.title.textContent = `Held at the peak of ${title}`;
    const says = [`${Show.bytes(allocated[peak])} allocated at ${this.trace.moment(time[peak])}.`];
    if (reserved) {
      const unused = reserved[peak] - allocated[peak];
      says.push(
        `${Show.bytes(reserved[peak])} reserved; ${Show.bytes(unused)} of it (${Show.percent(unused, reserved[peak])}) not allocated: fragments, and what is kept for later.`,
      );
    }
    this.says.textContent = says.join(" ");
    this.draw();
  }

  /** What a row of the table has, as text or as a number. @param {string} name */
  text(name) {
    const column = this.table?.columns.find((one) => one.name === name);
    return (/** @type {number} */ row) => column?.texts?.[Number(column.cells[row])] ?? "";
  }

  /** @param {string} name */
  number(name) {
    const column = this.table?.columns.find((one) => one.name === name);
    return (/** @type {number} */ row) => Number(column?.cells[row] ?? -1);
  }

  // What is held by name, with the uid of the largest part, the greatest first.
  sums() {
    /** @type {Map<string, { name: string, bytes: number, most: number, uid: number }>} */
    const found = new Map();
    const [device, module, bytes, uid] = [
      this.text("device"),
      this.text("module_path"),
      this.number("bytes"),
      this.number("uid"),
    ];
    const name =
      this.way === "class"
        ? (/** @type {number} */ row) => module(row).replace(/_\d+(?=\/|$)/g, "")
        : this.text(this.way);
    for (let row = 0; row < (this.table?.rows ?? 0); row++) {
      if (device(row) !== this.device.title) continue;
      const text = module(row) === BEFORE ? BEFORE : name(row) || "(none)",
        one = found.get(text) ?? { name: text, bytes: 0, most: -Infinity, uid: -1 };
      one.bytes += bytes(row);
      if (bytes(row) > one.most) [one.most, one.uid] = [bytes(row), uid(row)];
      found.set(text, one);
    }
    return [...found.values()].sort((a, b) => b.bytes - a.bytes);
  }

  draw() {
    const sums = this.sums(),
      whole = this.device.allocated[this.device.peak],
      most = Math.max(...sums.map((one) => one.bytes), 1),
      room = (this.place.clientWidth - 180) * 0.09;
    refill(
      this.bars,
      sums
        .slice(0, MOST)
        .map(({ name, bytes, uid }) =>
          el(
            "div.holder",
            { title: name },
            uid < 0 ? el("span.label", endOf(name, room)) : el("a.label", { href: `#uid=${uid}` }, endOf(name, room)),
            el("span.track", filled(Math.max(bytes, 0) / most, { class: "fill", fill: "allocated" })),
            el("span.number", Show.bytes(bytes)),
            el("span.number.dim", Show.percent(bytes, whole)),
          ),
        ),
      sums.length ? null : el("p.dim", "Who held it was not recorded."),
    );
  }
}
