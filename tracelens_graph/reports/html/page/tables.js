// @ts-check
// All tables of the report.
class Tables {
  constructor(app) {
    this.app = app;
    this.root = el("section", { class: "tables", id: "view-tables", role: "tabpanel", "aria-label": "Tables" });
  }

  start(trace) {
    this.trace = trace;
    const { tables, texts } = trace.body;
    for (const table of tables) for (const column of table.columns) if (column.kind === "text") column.texts = texts;
    this.list = el("nav", { class: "list", "aria-label": "Tables" });
    this.title = el("h2");
    this.place = el("div", { class: "twin" });
    this.list.hidden = tables.length < 2;
    this.root.append(this.list, el("div", { class: "one" }, this.title, this.place));
    this.grid = new Grid(this.place, "Table");
    this.list.append(
      ...tables.map((table) =>
        el(
          "button",
          {
            type: "button",
            class: table.rows ? "" : "empty",
            title: table.title,
            onclick: () => this.open(table.name),
            "data-table": table.name,
          },
          table.name.replace(/_/g, " "),
          el("span", { class: "dim" }, ` ${Show.count(table.rows)}`),
        ),
      ),
    );
    // A report begins with its operations; who asked for tables gets the first of them.
    const dearest = this.app.overview && tables.find((one) => one.name === "ops_summary" && one.rows);
    const first = dearest || tables.find((one) => one.rows) || tables[0];
    if (first) this.open(first.name);
  }

  // A text in the first column is searched for, where the timeline and the flame graph show where it is.
  content(table) {
    return this.app.timeline ? { ...table, links: (row, text) => this.app.search(text, true) } : { ...table };
  }

  open(name) {
    const table = this.trace.body.tables.find((one) => one.name === name);
    if (!table) return;
    for (const button of this.list.children) button.setAttribute("aria-current", button.dataset.table === name);
    this.name = name;
    this.title.textContent = table.title;
    this.grid.show(this.content(table));
  }
}
