// @ts-check
// The tables of a comparison: a row of the places leads to its place.
class DiffTables extends Tables {
  start(trace) {
    // Uids are those of two traces: none of them is a link on this page.
    for (const column of trace.body.tables.flatMap((table) => table.columns)) {
      if (column.kind === "uid") column.kind = "id";
      if (column.name.startsWith("change_")) column.number = DiffShow.signed;
    }
    super.start(trace);
    this.open("diff_places");
  }

  content(table) {
    if (table.name !== "diff_places") return table;
    const { cells } = table.columns.find((column) => column.name === "place");
    return {
      ...table,
      click: (row) => this.app.selectPlace(cells[row]),
      isMarked: (row) => cells[row] === this.app.place,
    };
  }

  mark(number) {
    if (this.name !== "diff_places") this.open("diff_places");
    this.grid.reveal(number - 1);
  }
}
