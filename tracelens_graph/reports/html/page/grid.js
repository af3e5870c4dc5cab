// @ts-check
// A table of which only the rows in sight are elements: two spacers stand for the others.
class Grid {
  static ROW = 24;

  constructor(place, label) {
    this.place = place;
    this.label = label;
    this.matching = new Matching();
    /** @type {(note: string) => void} */
    this.arranged = () => {};
    this.filter = el("input", {
      type: "search",
      placeholder: "Filter rows",
      "aria-label": `Filter rows of ${label}`,
      oninput: () => this.arrange(),
    });
    this.columnsBox = el("details", { class: "columns" });
    this.copy = el(
      "button",
      { type: "button", title: "Copy the rows shown, with tabs", onclick: () => this.copyRows() },
      "Copy TSV",
    );
    this.counted = el("span", { class: "dim" });
    this.head = el("thead");
    this.body = el("tbody");
    this.table = el("table", { "aria-label": label }, this.head, this.body);
    this.scroll = el("div", { class: "scroll", tabIndex: 0, onscroll: () => this.fill() }, this.table);
    this.notes = el("div", { class: "notes" });
    place.append(
      el("div", { class: "bar" }, this.filter, this.columnsBox, this.copy, this.counted),
      this.scroll,
      this.notes,
    );
    new ResizeObserver(() => this.fill()).observe(this.scroll);
  }

  // content: {columns: [{heading, unit, about, kind, digits, shown, cells, number}], rows, notes, click, links, isMarked}
  show(content) {
    this.content = content;
    for (const column of content.columns) {
      column.isShown = column.shown !== false;
      column.digits ??=
        column.unit === "%" ? 2 : column.cells.every((cell) => cell == null || Number.isInteger(cell)) ? 0 : 3;
    }
    this.sorted = null;
    this.order = null;
    this.columnsBox.replaceChildren(
      el("summary", {}, "Columns"),
      el(
        "div",
        { class: "choices" },
        ...content.columns.map((column) =>
          el(
            "label",
            { title: column.about },
            el("input", {
              type: "checkbox",
              checked: column.isShown,
              onchange: (event) => {
                column.isShown = event.target.checked;
                this.drawHead();
                this.fill(true);
              },
            }),
            column.heading,
          ),
        ),
      ),
    );
    this.notes.replaceChildren(...(content.notes || []).map((note) => el("p", {}, note)));
    this.scroll.scrollTop = 0;
    this.drawHead();
    this.body.replaceChildren();
    this.arrange();
  }

  // The heading of a column with its unit, once.
  static title({ heading, unit }) {
    if (!unit || heading.includes(unit) || (unit === "B" && heading.includes("bytes"))) return heading;
    if (unit === "MiB" && heading === "MB") return unit;
    return `${unit === "%" ? heading.replace(/ ?percent$/, "") : heading} ${unit}`.trim();
  }

  get shownColumns() {
    return this.content.columns.filter((column) => column.isShown);
  }

  drawHead() {
    const sortBy = (column) => {
      const isSame = this.sorted?.column === column;
      const first = column.kind === "text" ? 1 : -1;
      this.sorted = isSame ? (this.sorted.way === first ? { column, way: -first } : null) : { column, way: first };
      this.drawHead();
      this.arrange();
    };
    this.head.replaceChildren(
      el(
        "tr",
        {},
        ...this.shownColumns.map((column) => {
          const way = this.sorted?.column === column ? this.sorted.way : 0;
          return el(
            "th",
            {
              scope: "col",
              class: column.kind === "text" ? "" : "number",
              title: column.about || "",
              "aria-sort": way ? (way > 0 ? "ascending" : "descending") : "none",
            },
            el(
              "button",
              { type: "button", onclick: () => sortBy(column) },
              `${Grid.title(column)}${way ? (way > 0 ? " ▲" : " ▼") : ""}`,
            ),
          );
        }),
      ),
    );
  }

  text(column, row) {
    const cell = column.cells[row];
    if (cell == null) return "";
    if (column.kind === "number") return (column.number ?? Show.number)(cell, column.digits);
    if (column.kind === "uid") return cell < 0 ? "" : String(cell);
    return column.texts ? column.texts[cell] : String(cell);
  }

  // Rows that fit the filter, in order; `arranged` is called when they stand.
  arrange() {
    if (!this.content) return;
    const { rows, columns } = this.content,
      all = Array.from({ length: rows }, (_, row) => row);
    if (!this.filter.value) {
      this.matching.stop();
      this.list(all, "");
      this.arranged("");
      return;
    }
    const texts = columns.filter((column) => column.kind === "text");
    const cells = texts.flatMap((column) => all.map((row) => this.text(column, row)));
    this.matching.find(this.filter.value, cells, (found, note) => {
      this.list(
        all.filter((row) => texts.some((_, k) => found[k * rows + row])),
        note,
      );
      this.arranged(note);
    });
    if (this.matching.isBusy) this.counted.textContent = "searching …";
  }

  list(order, note) {
    const { rows } = this.content;
    if (this.sorted) {
      const { column, way } = this.sorted;
      const key = column.kind === "text" ? (row) => this.text(column, row) : (row) => column.cells[row];
      const isAbsent = (value) => value == null;
      order.sort((a, b) => {
        const x = key(a),
          y = key(b);
        if (isAbsent(x) || isAbsent(y)) return Number(isAbsent(x)) - Number(isAbsent(y)) || a - b;
        return way * (x < y ? -1 : x > y ? 1 : 0) || a - b;
      });
    }
    this.order = order;
    this.counted.textContent = `${order.length === rows ? "" : `${Show.count(order.length)} of `}${Show.count(rows)} ${rows === 1 ? "row" : "rows"}${note && `, ${note}`}`;
    this.fill(true);
  }

  fill(isNew = false) {
    if (!this.order) return;
    const height = this.isPrinted ? Infinity : this.scroll.clientHeight || 400;
    const first = this.isPrinted ? 0 : Math.max(0, Math.floor(this.scroll.scrollTop / Grid.ROW) - 5);
    const last = Math.min(this.order.length, this.isPrinted ? 100 : first + Math.ceil(height / Grid.ROW) + 12);
    if (!isNew && first === this.first && last === this.last) return;
    this.first = first;
    this.last = last;
    const shown = this.shownColumns;
    const spacer = (rows) => {
      const made = el(
        "tr",
        { class: "spacer", "aria-hidden": "true" },
        el("td", { colSpan: Math.max(shown.length, 1) }),
      );
      made.firstChild.style.height = `${rows * Grid.ROW}px`;
      return made;
    };
    const lines = [];
    for (let at = first; at < last; at++) lines.push(this.line(this.order[at], shown));
    this.body.replaceChildren(
      ...(first ? [spacer(first)] : []),
      ...lines,
      ...(last < this.order.length ? [spacer(this.order.length - last)] : []),
    );
  }

  line(row, shown) {
    const { click, links, isMarked } = this.content;
    return el(
      "tr",
      { class: isMarked?.(row) ? "marked" : null },
      ...shown.map((column, k) => {
        const text = this.text(column, row);
        const cell = el("td", { class: column.kind === "text" ? "" : "number" });
        if (column.kind === "uid" && text) {
          cell.append(el("a", { href: `#uid=${text}`, title: "Show this node" }, text));
        } else if (k === 0 && (click || links)) {
          cell.append(
            el(
              "button",
              { type: "button", class: "link", title: text, onclick: () => (click ? click(row) : links(row, text)) },
              text,
            ),
          );
        } else {
          cell.append(Show.cut(text, 300));
          if (text.length > 24) cell.title = text;
        }
        return cell;
      }),
    );
  }

  // Bring a row into sight, with the marks as they are now.
  reveal(row) {
    if (!this.order) return;
    const at = this.order.indexOf(row),
      top = at * Grid.ROW;
    const { scrollTop, clientHeight } = this.scroll;
    if (at >= 0 && (top < scrollTop || top > scrollTop + clientHeight - 3 * Grid.ROW))
      this.scroll.scrollTop = Math.max(0, top - clientHeight / 3);
    this.fill(true);
  }

  copyRows() {
    if (!this.order) return;
    const shown = this.shownColumns,
      plain = (text) => text.replace(/[\t\n\r]/g, " ");
    const value = (column, row) => (column.kind === "number" ? (column.cells[row] ?? "") : this.text(column, row));
    const lines = [shown.map((column) => plain(column.unit ? `${column.heading} (${column.unit})` : column.heading))];
    for (const row of this.order) lines.push(shown.map((column) => plain(String(value(column, row)))));
    const text = lines.map((cells) => cells.join("\t")).join("\n");
    this.copied = text;
    copyText(text, this.copy);
  }
}
