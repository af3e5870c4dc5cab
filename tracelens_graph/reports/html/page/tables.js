// @ts-check
// All tables of a page: a list of them, and the one that is chosen.
import { el, fading, put } from "./dom.js";
import { Grid } from "./grid.js";
import { Show } from "./show.js";

export class Tables {
  static NAME = "tables";
  static TITLE = "Tables";

  // first: tables that are open at first, the first of them that has rows. content: what a table is shown with.
  /**
   * @param {HTMLElement} root
   * @param {TableData[]} tables
   * @param {string[]} first
   * @param {(table: TableData) => GridContent} [content]
   */
  constructor(root, tables, first, content = (table) => table) {
    // An empty table is listed only where it is the one that was asked for.
    tables = tables.filter(({ rows }) => rows || tables.length < 2);
    this.tables = tables;
    this.opened = "";
    this.content = content;
    this.name = "";
    this.list = el(
      "nav.list",
      { "aria-label": "Tables", hidden: tables.length < 2 },
      tables.map(({ name, title, rows }) =>
        el(
          "button",
          {
            type: "button",
            title,
            onclick: () => this.open(name),
            "data-table": name,
          },
          name.replace(/_/g, " "),
          el("span.dim", ` ${Show.count(rows)}`),
        ),
      ),
    );
    this.title = el("h2");
    const place = el("div.twin");
    put(root, fading(this.list), el("div.one", this.title, place));
    this.grid = new Grid(place, "Table");
    const opened =
      first.map((one) => tables.find(({ name, rows }) => name === one && rows)).find(Boolean) ?? tables.find(({ rows }) => rows) ?? tables[0];
    if (opened) this.open(opened.name);
    this.opened = this.name;
  }

  changed() {}

  /** @returns {Record<string, string>} */
  get address() {
    return this.name === this.opened ? {} : { table: this.name };
  }

  /** @param {Asked} asked */
  restore(asked) {
    const name = asked.text("table");
    if (name) this.open(name);
  }

  /** @param {string} name */
  open(name) {
    const table = this.tables.find((one) => one.name === name);
    if (!table) return;
    for (const one of this.list.querySelectorAll("button"))
      one.setAttribute("aria-current", String(one.dataset.table === name));
    this.name = name;
    this.title.textContent = table.title;
    this.grid.show(this.content(table));
    this.changed();
  }

  shown() {
    this.grid.fill(true);
  }
}

/** Uids of several traces are no links on a page. @param {TableData[]} tables */
export const withoutLinks = (tables) => {
  for (const column of tables.flatMap((table) => table.columns)) if (column.kind === "uid") column.kind = "id";
};
