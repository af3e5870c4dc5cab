// @ts-check
// A table where only the rows in sight are elements: two spacers stand for the others.
import { button, copyText, el, fading, put, refill } from "./dom.js";
import { Matching } from "./matching.js";
import { Show } from "./show.js";

/** @param {unknown} cell */
const isAbsent = (cell) => cell == null;

// Rows as columns of a grid, each as heading, kind, what it has of a row, unit, digits, and what else there is.
/**
 * @template Row
 * @param {Row[]} rows
 * @param {[string, GridColumn["kind"], (row: Row) => Cell, string?, number?, Partial<GridColumn>?][]} columns
 * @param {Omit<GridContent, "rows" | "columns">} [more]
 * @returns {GridContent}
 */
export const gridOf = (rows, columns, more = {}) => ({
  rows: rows.length,
  columns: columns.map(([heading, kind, value, unit, digits, others]) => ({
    heading,
    kind,
    unit,
    digits,
    cells: rows.map(value),
    ...others,
  })),
  ...more,
});

export class Grid {
  static ROW = 24;

  /** @type {number[] | null} rows that fit the filter, in their order; null until they are known */
  order = null;
  /** @type {{ column: GridColumn, way: number } | null} */
  sorted = null;
  isPrinted = false;
  copied = "";
  first = 0;
  last = 0;
  /** @type {(note: string) => void} called when the rows stand that fit the filter */
  arranged = () => {};

  /** @param {Element} place @param {string} label @param {GridContent} [content] */
  constructor(place, label, content) {
    /** @type {GridContent} */
    this.content = { columns: [], rows: 0 };
    this.matching = new Matching();
    this.filter = el("input", {
      type: "search",
      placeholder: "Filter rows",
      "aria-label": `Filter rows of ${label}`,
      oninput: () => this.arrange(),
    });
    this.columnsBox = el("details.columns");
    this.copy = button("Copy TSV", () => this.copyRows(), { title: "Copy the rows shown, with tabs" });
    this.counted = el("span.dim");
    this.head = el("thead");
    this.body = el("tbody");
    this.scroll = fading(
      el(
        "div.scroll",
        { tabIndex: 0, onscroll: () => this.fill() },
        el("table", { "aria-label": label }, this.head, this.body),
      ),
    );
    this.notes = el("div.notes");
    put(place, el("div.bar", this.filter, this.columnsBox, this.copy, this.counted), this.scroll, this.notes);
    new ResizeObserver(() => this.fill()).observe(this.scroll);
    if (content) this.show(content);
  }

  /** @param {GridContent} content */
  show(content) {
    this.content = content;
    for (const column of content.columns) {
      column.isShown = column.shown !== false;
      column.digits ??=
        column.unit === "%"
          ? 2
          : Array.from(column.cells).every((cell) => isAbsent(cell) || Number.isInteger(cell))
            ? 0
            : 3;
    }
    this.sorted = null;
    this.order = null;
    refill(
      this.columnsBox,
      el("summary", "Columns"),
      el(
        "div.choices",
        content.columns.map((column) => this.chooser(column)),
      ),
    );
    refill(
      this.notes,
      content.notes?.map((note) => el("p", note)),
    );
    this.scroll.scrollTop = 0;
    this.drawHead();
    this.body.replaceChildren();
    this.arrange();
  }

  /** A box that shows a column or hides it. @param {GridColumn} column */
  chooser(column) {
    const box = el("input", { type: "checkbox", checked: column.isShown });
    box.addEventListener("change", () => {
      column.isShown = box.checked;
      this.drawHead();
      this.fill(true);
    });
    return el("label", { title: column.about ?? "" }, box, column.heading);
  }

  /** The heading of a column with its unit, once. @param {{ heading: string, unit?: string | null }} column */
  static title({ heading, unit }) {
    if (!unit || heading.includes(unit) || (unit === "B" && heading.includes("bytes"))) return heading;
    if (unit === "MiB" && heading === "MB") return unit;
    return `${unit === "%" ? heading.replace(/ ?percent$/, "") : heading} ${unit}`.trim();
  }

  get shownColumns() {
    return this.content.columns.filter((column) => column.isShown);
  }

  drawHead() {
    const headings = this.shownColumns.map((column) => {
      const way = this.sorted?.column === column ? this.sorted.way : 0;
      return el(
        "th",
        {
          scope: "col",
          class: column.kind === "text" ? "" : "number",
          title: column.about || "",
          "aria-sort": way ? (way > 0 ? "ascending" : "descending") : "none",
        },
        button(`${Grid.title(column)}${way ? (way > 0 ? " ▲" : " ▼") : ""}`, () => this.sortBy(column)),
      );
    });
    refill(this.head, el("tr", headings));
  }

  /** By a column, then the other way round, then as it was. @param {GridColumn} column */
  sortBy(column) {
    const first = column.kind === "text" ? 1 : -1;
    if (this.sorted?.column !== column) this.sorted = { column, way: first };
    else this.sorted = this.sorted.way === first ? { column, way: -first } : null;
    this.drawHead();
    this.arrange();
  }

  /** @param {GridColumn} column @param {number} row */
  text(column, row) {
    const cell = column.cells[row];
    if (cell == null) return "";
    if (column.kind === "number") return (column.number ?? Show.number)(Number(cell), column.digits ?? 0);
    if (column.kind === "uid") return Number(cell) < 0 ? "" : String(cell);
    return column.texts ? column.texts[Number(cell)] : String(cell);
  }

  // Rows that fit the filter, in order.
  arrange() {
    const { rows, columns } = this.content,
      all = Array.from({ length: rows }, (_, row) => row);
    if (!columns.length) return;
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

  /** @param {number[]} order @param {string} note */
  list(order, note) {
    const { rows } = this.content;
    if (this.sorted) {
      const { column, way } = this.sorted;
      /** @param {number} row */
      const key = (row) => (column.kind === "text" ? this.text(column, row) : column.cells[row]);
      order.sort((a, b) => {
        const x = key(a),
          y = key(b);
        if (x == null || y == null) return Number(isAbsent(x)) - Number(isAbsent(y)) || a - b;
        return way * (x < y ? -1 : x > y ? 1 : 0) || a - b;
      });
    }
    this.order = order;
    const part = order.length === rows ? "" : `${Show.count(order.length)} of `;
    this.counted.textContent = `${part}${Show.count(rows)} ${rows === 1 ? "row" : "rows"}${note && `, ${note}`}`;
    this.fill(true);
  }

  fill(isNew = false) {
    const { order } = this;
    if (!order) return;
    const height = this.isPrinted ? Infinity : this.scroll.clientHeight || 400;
    const first = this.isPrinted ? 0 : Math.max(0, Math.floor(this.scroll.scrollTop / Grid.ROW) - 5);
    const last = Math.min(order.length, this.isPrinted ? 100 : first + Math.ceil(height / Grid.ROW) + 12);
    if (!isNew && first === this.first && last === this.last) return;
    this.first = first;
    this.last = last;
    const shown = this.shownColumns;
    /** @param {number} rows */
    const spacer = (rows) => {
      const cell = el("td", { colSpan: Math.max(shown.length, 1) });
      cell.style.height = `${rows * Grid.ROW}px`;
      return rows ? el("tr.spacer", { "aria-hidden": "true" }, cell) : null;
    };
    refill(
      this.body,
      spacer(first),
      order.slice(first, last).map((row) => this.line(row, shown)),
      spacer(order.length - last),
    );
  }

  /** @param {number} row @param {GridColumn[]} shown */
  line(row, shown) {
    const { click, isMarked } = this.content;
    return el(
      "tr",
      { class: isMarked?.(row) ? "marked" : null },
      shown.map((column, k) => {
        const text = this.text(column, row),
          cell = el("td", { class: column.kind === "text" ? "" : "number" });
        if (column.kind === "uid" && text) put(cell, el("a", { href: `#uid=${text}`, title: "Show this node" }, text));
        else if (k === 0 && click)
          put(
            cell,
            button(text, () => click(row, text), { class: "link", title: text }),
          );
        else {
          const fill = column.classes?.[String(column.cells[row])];
          put(cell, fill && el("i.swatch", { fill }), Show.cut(text, 300));
          if (text.length > 24) cell.title = text;
        }
        return cell;
      }),
    );
  }

  /** Bring a row into sight, with the marks as they are now. @param {number} row */
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
    const shown = this.shownColumns;
    /** @param {Cell} cell */
    const plain = (cell) => String(cell).replace(/[\t\n\r]/g, " ");
    const lines = [shown.map(({ heading, unit }) => plain(unit ? `${heading} (${unit})` : heading))];
    for (const row of this.order)
      lines.push(
        shown.map((column) => plain(column.kind === "number" ? (column.cells[row] ?? "") : this.text(column, row))),
      );
    this.copied = lines.map((cells) => cells.join("\t")).join("\n");
    copyText(this.copied, this.copy);
  }
}
