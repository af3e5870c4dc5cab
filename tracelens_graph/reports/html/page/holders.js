// @ts-check
// Who held the memory of a device at its peak: by module, op or line of Python, as bars.
class Holders {
  static MOST = 200;
  // Column of the table of the peak -> how it is asked for.
  static WAYS = { module_path: "by module", class: "by class of module", op: "by op", line: "by line" };
  static BEFORE = "(before the recording)";

  constructor(memory, place) {
    this.memory = memory;
    this.place = place;
    this.way = "module_path";
    this.table = memory.trace.body.tables.find((one) => one.name === "memory_peak");
    this.title = el("h2");
    this.says = el("p", { class: "dim" });
    this.bars = el("div", { class: "bars", tabIndex: 0 });
    this.ways = Object.entries(Holders.WAYS).map(([way, label]) =>
      el("button", { type: "button", "aria-pressed": way === this.way, onclick: () => this.by(way) }, label),
    );
    const device = el(
      "select",
      { "aria-label": "Device", onchange: () => this.show(memory.devices[Number(device.value)]) },
      ...memory.devices.map((one, k) => el("option", { value: k }, one.title)),
    );
    this.choice = device;
    place.append(
      this.title,
      this.says,
      el("div", { class: "bar" }, memory.devices.length > 1 ? device : null, ...this.ways),
      this.bars,
    );
    this.show(memory.devices[0]);
  }

  by(way) {
    this.way = way;
    Object.keys(Holders.WAYS).forEach((one, k) => this.ways[k].setAttribute("aria-pressed", one === way));
    this.draw();
  }

  show(device) {
    const { time, allocated, reserved, peak, title } = device;
    this.device = device;
    this.choice.value = this.memory.devices.indexOf(device);
    this.title.textContent = `Held at the peak of ${title}`;
    const unused = reserved ? reserved[peak] - allocated[peak] : 0;
    this.says.textContent = [
      `${Show.bytes(allocated[peak])} allocated at ${this.memory.trace.shown(time[peak])}.`,
      reserved
        ? `${Show.bytes(reserved[peak])} reserved; ${Show.bytes(unused)} of it (${Show.percent(unused, reserved[peak])}) not allocated: fragments, and what is kept for later.`
        : "",
    ]
      .filter(Boolean)
      .join(" ");
    this.draw();
  }

  column(name) {
    if (name === "class") {
      const module = this.column("module_path");
      return (row) => module(row).replace(/_\d+(?=\/|$)/g, "");
    }
    const found = this.table.columns.find((one) => one.name === name);
    return (row) => (found.kind === "text" ? (found.texts[found.cells[row]] ?? "") : found.cells[row]);
  }

  // What is held by name: {name, bytes, uid of the largest part}, the greatest first.
  sums() {
    const found = new Map();
    if (!this.table) return [];
    const device = this.column("device"),
      module = this.column("module_path"),
      name = this.column(this.way),
      bytes = this.column("bytes"),
      uid = this.column("uid");
    for (let row = 0; row < this.table.rows; row++) {
      if (device(row) !== this.device.title) continue;
      const text = module(row) === Holders.BEFORE ? Holders.BEFORE : name(row) || "(none)";
      const one = found.get(text) ?? { name: text, bytes: 0, most: -Infinity, uid: null };
      one.bytes += bytes(row);
      if (bytes(row) > one.most) Object.assign(one, { most: bytes(row), uid: uid(row) });
      found.set(text, one);
    }
    return [...found.values()].sort((a, b) => b.bytes - a.bytes);
  }

  // Of a path that has no room its end, which tells most.
  static end(path, room) {
    if (path.length <= room) return path;
    const parts = path.split("/");
    let end = parts.pop();
    while (parts.length && parts.at(-1).length + end.length + 3 <= room) end = `${parts.pop()}/${end}`;
    return parts.length ? `…/${end}` : end;
  }

  draw() {
    const sums = this.sums(),
      whole = this.device.allocated[this.device.peak],
      most = Math.max(...sums.map((one) => one.bytes), 1),
      room = (this.place.clientWidth - 180) * 0.09;
    this.bars.replaceChildren(
      ...sums.slice(0, Holders.MOST).map((one) => {
        const fill = el("i", { class: "fill c-allocated" });
        fill.style.width = `${(100 * Math.max(one.bytes, 0)) / most}%`;
        return el(
          "div",
          { class: "holder", title: one.name },
          one.uid == null || one.uid < 0
            ? el("span", { class: "label" }, Holders.end(one.name, room))
            : el("a", { class: "label", href: `#uid=${one.uid}` }, Holders.end(one.name, room)),
          el("span", { class: "track" }, fill),
          el("span", { class: "number" }, Show.bytes(one.bytes)),
          el("span", { class: "number dim" }, Show.percent(one.bytes, whole)),
        );
      }),
      ...(sums.length ? [] : [el("p", { class: "dim" }, "Who held it was not recorded.")]),
    );
  }
}
