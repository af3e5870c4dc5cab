// @ts-check
// What every page has before its data are unpacked: views behind tabs, light and dark, keys, search, printing, an address.
import { Tip, button, byId, el, fading, put } from "./dom.js";
import { Planes } from "./planes.js";

/** @typedef {import("./page.js").Page} Page */

/** @param {string} id */
export const textOf = (id) => byId(id).textContent ?? "";

// What the file holds packed: the body, and columns.
/**
 * @param {Described[]} described
 * @returns {Promise<{ body: any, columns: Columns }>}
 */
export const unpacked = async (described) => {
  const [body, planes] = await Promise.all([unpackedBody(), Planes.inflate(textOf("planes"))]);
  return { body, columns: Planes.columns(described, planes) };
};

// The body, in which cells of tables know their texts.
export const unpackedBody = async () => {
  const body = JSON.parse(new TextDecoder().decode(await Planes.inflate(textOf("body"))));
  for (const table of body.tables ?? [])
    for (const column of table.columns) if (column.kind === "text") column.texts = body.texts;
  return body;
};

export class Shell {
  /** @type {Page | undefined} what is drawn once the file is unpacked */
  page = undefined;
  /** @type {Map<string, { root: HTMLElement, tab: HTMLElement }>} */
  views = new Map();
  // The name of the view that is shown, and the theme that was chosen.
  shown = "";
  chosen = "";
  isPrinted = false;

  // The first of the views is shown. keys: what each of them does, for the list of keys.
  /** @param {string} heading @param {Tab[]} tabs @param {[string, string][]} keys */
  constructor(heading, tabs, keys) {
    this.system = matchMedia("(prefers-color-scheme: dark)");
    this.search = /** @type {HTMLInputElement} */ (byId("search"));
    this.theme();
    byId("title").textContent = byId("title").title = heading;
    for (const { NAME: name, TITLE: title, LABEL: label = title } of tabs) {
      const root = el(`section.${name}`, { id: `view-${name}`, role: "tabpanel", "aria-label": label });
      const tab = button(title, () => this.go(name), {
        role: "tab",
        id: `tab-${name}`,
        "aria-controls": `view-${name}`,
      });
      byId("main").append(fading(root));
      byId("views").append(tab);
      this.views.set(name, { root, tab });
    }
    fading(byId("selected"));
    this.listen(keys);
    this.show(tabs[0].NAME);
  }

  /** Where a view draws. @param {Tab} view */
  root({ NAME }) {
    return /** @type {{ root: HTMLElement }} */ (this.views.get(NAME)).root;
  }

  /** Draw what is unpacked, and then what the address names. @param {() => Promise<Page>} make */
  async run(make) {
    const { dataset } = document.documentElement;
    try {
      const page = await make();
      window.tracelensGraph = this.page = page;
      page.follow();
      page.readyMs = performance.now();
      dataset.ready = "yes";
    } catch (error) {
      const text = `The page could not be unpacked: ${/** @type {Error} */ (error).message}`;
      this.say(text);
      for (const place of document.querySelectorAll(".unpacking")) place.textContent = text;
      dataset.ready = "failed";
    }
  }

  /** @param {string | null} name */
  show(name) {
    if (!name || !this.views.has(name)) return;
    this.shown = name;
    Tip.hide();
    for (const [one, { root, tab }] of this.views) {
      root.hidden = one !== name;
      tab.setAttribute("aria-selected", String(one === name));
      tab.tabIndex = one === name ? 0 : -1;
    }
    this.page?.shownNow();
  }

  /** @param {string} name */
  go(name) {
    this.show(name);
    this.link();
  }

  link() {
    try {
      history.replaceState(null, "", `#${[`view=${this.shown}`, ...(this.page?.linked ?? [])].join("&")}`);
    } catch {
      // A page inside of another one may have no address of its own.
    }
  }

  /** @param {string} text */
  say(text) {
    byId("found").textContent = text;
  }

  // Paper is light; else what was chosen; else as the system is.
  theme() {
    const system = this.system.matches ? "dark" : "light";
    document.documentElement.dataset.theme = this.isPrinted ? "light" : this.chosen || system;
    this.page?.recolor();
  }

  /** @param {[string, string][]} keys */
  listen(keys) {
    const dialog = /** @type {HTMLDialogElement} */ (byId("keys"));
    put(
      dialog,
      el("h2", "Keys"),
      el(
        "dl",
        keys.map(([key, says]) => [el("dt", key), el("dd", says)]),
      ),
      button("Close", () => dialog.close()),
    );
    /** @type {[string, () => void][]} */
    const clicks = [
      ["next", () => this.page?.next(1)],
      ["before", () => this.page?.next(-1)],
      ["help", () => dialog.showModal()],
      [
        "theme",
        () => {
          this.chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
          this.theme();
        },
      ],
    ];
    for (const [id, act] of clicks) byId(id).addEventListener("click", act);
    this.listenToSearch();
    this.system.addEventListener("change", () => this.theme());
    addEventListener("hashchange", () => this.page?.follow());
    addEventListener("keydown", (event) => {
      if (!dialog.open && this.page) this.key(event, this.page);
    });
    byId("views").addEventListener("keydown", (event) => this.tabKey(event));
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
  }

  listenToSearch() {
    const { search } = this;
    let typing = 0;
    const run = () => {
      clearTimeout(typing);
      typing = 0;
      this.page?.search(search.value);
    };
    search.addEventListener("input", () => {
      clearTimeout(typing);
      if (!this.page?.searchDelay) run();
      else typing = setTimeout(run, this.page.searchDelay);
    });
    search.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (!this.page || !["Enter", "Escape"].includes(event.key)) return;
      if (event.key === "Escape") this.page.search("");
      else {
        if (typing) run();
        this.page.next(event.shiftKey ? -1 : 1);
      }
      // What is typed next is a key again: `n` goes on, and so does Enter.
      search.blur();
    });
  }

  /** Arrows go from tab to tab, as in every list of tabs. @param {KeyboardEvent} event */
  tabKey(event) {
    const names = [...this.views.keys()],
      by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    const next = names[(names.indexOf(this.shown) + by + names.length) % names.length];
    this.go(next);
    byId(`tab-${next}`).focus();
    event.preventDefault();
    event.stopPropagation();
  }

  /** @param {boolean} isPrinted */
  print(isPrinted) {
    if (!this.page) return;
    this.isPrinted = isPrinted;
    document.documentElement.classList.toggle("printing", isPrinted);
    this.theme();
    this.page.print(isPrinted);
  }

  /** @param {KeyboardEvent} event @param {Page} page */
  key(event, page) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { key } = event,
      target = /** @type {HTMLElement} */ (event.target);
    if (target.matches?.("input:not([type=checkbox]), select, textarea")) {
      if (key === "Escape") target.blur();
      return;
    }
    const names = [...this.views.keys()];
    if (key === "/") this.search.focus();
    else if (key === "?") byId("help").click();
    else if (key >= "1" && key <= String(names.length)) this.go(names[Number(key) - 1]);
    else if (key === "n" || key === "N") page.next(key === "n" ? 1 : -1);
    else if (key === "Escape") {
      page.search("");
      page.unselect();
    } else if (key === "Enter") {
      if (target.closest?.("button, a, summary")) return;
      page.next(event.shiftKey ? -1 : 1);
    } else if (!page.key(key)) return;
    event.preventDefault();
  }
}
