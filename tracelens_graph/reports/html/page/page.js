// @ts-check
// What every page does with its data: views, the box of what is selected, searches and the links that say so.
import { button, byId, copyText, el, refill } from "./dom.js";
import { Matching } from "./matching.js";
import { Show } from "./show.js";

/** @typedef {import("./shell.js").Shell} Shell */

// Inside of another page, as a notebook shows it, a page has no address to send.
export const hasAddress = location.protocol !== "about:";

export class Page {
  readyMs = 0;
  isFollowing = false;
  /** @type {Record<string, View | undefined>} */
  views = {};
  /** @type {number[]} what a search found */
  matches = [];
  // Steps through what is found that were asked for before it was known.
  behind = 0;
  matching = new Matching();

  /** @param {Shell} shell */
  constructor(shell) {
    this.shell = shell;
  }

  get shown() {
    return this.shell.shown;
  }

  // ---- what each page says by itself

  /** What a link says beside the view: how views are where that is not as at first. @returns {string[]} */
  get linked() {
    const every = Object.values(this.views).flatMap((view) => Object.entries(view?.address ?? {}));
    return every.map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
  }

  // Show what the address says.
  follow() {
    this.isFollowing = true;
    for (const view of Object.values(this.views)) view?.restore?.(this.asked);
    this.isFollowing = false;
  }

  // Once there are views: what changes in them changes the address.
  linkViews() {
    for (const view of Object.values(this.views))
      if (view)
        view.changed = () => {
          if (!this.isFollowing) this.link();
        };
  }

  /** @param {string} _text */
  search(_text) {}

  /** @param {number} _by */
  next(_by) {}

  unselect() {}

  // Milliseconds from the last key to a search.
  get searchDelay() {
    return 0;
  }

  // ---- views

  /** @param {string} key */
  key(key) {
    return this.views[this.shown]?.key?.(key) ?? false;
  }

  shownNow() {
    this.views[this.shown]?.shown?.();
  }

  recolor() {
    for (const view of Object.values(this.views)) view?.recolor?.();
  }

  /** What is printed is drawn at once. @param {boolean} isPrinted */
  print(isPrinted) {
    this.shownNow();
    this.views[this.shown]?.print?.();
    for (const view of Object.values(this.views)) {
      if (!view?.grid) continue;
      view.grid.isPrinted = isPrinted;
      view.grid.fill(true);
    }
  }

  /** @param {string} name */
  go(name) {
    this.shell.go(name);
  }

  /** @param {string | null} name */
  show(name) {
    this.shell.show(name);
  }

  link() {
    this.shell.link();
  }

  /** @param {string} text */
  say(text) {
    this.shell.say(text);
  }

  // What the address asks for; texts, whole numbers and spans in it by their names: null where there is none.
  /** @returns {Asked} */
  get asked() {
    const asked = new URLSearchParams(location.hash.slice(1));
    return {
      view: asked.get("view"),
      text: (name) => asked.get(name),
      number: (name) => (/^\d{1,15}$/.test(asked.get(name) ?? "") ? Number(asked.get(name)) : null),
      span(name) {
        const [, from, to] = /^(-?\d{1,15})~(-?\d{1,15})$/.exec(asked.get(name) ?? "") ?? [];
        return from && Number(from) < Number(to) ? { from: Number(from), to: Number(to) } : null;
      },
    };
  }

  // ---- what is selected

  /** Fill the box of what is selected; without anything it is not shown. @param {Child[]} inside */
  selectedBox(...inside) {
    const box = byId("selected");
    box.hidden = !inside.length;
    document.body.classList.toggle("has-selection", !!inside.length);
    refill(box, ...inside);
  }

  /** @param {Child[]} acts */
  acts(...acts) {
    return el(
      "div.acts",
      acts,
      hasAddress && button("Copy link", (event) => copyText(location.href, event.currentTarget)),
      button("✕", () => this.unselect()),
    );
  }

  // ---- searches

  // Look for a text; of none nothing is found, which is null.
  /** @param {string} text @param {string[]} texts @param {(found: Uint8Array | null, note: string) => void} found */
  find(text, texts, found) {
    this.shell.search.value = text;
    this.behind = 0;
    /** @param {Uint8Array | null} fits @param {string} note */
    const done = (fits, note) => {
      found(fits, note);
      this.goOn();
    };
    if (!text) {
      this.matching.stop();
      done(null, "");
      return;
    }
    this.matching.find(text, texts, done);
    if (this.matching.isBusy) this.say("searching …");
  }

  /** What is asked before a search has ended comes behind it. @param {number} by */
  isReadyFor(by) {
    if (this.matching.isBusy) this.behind = by;
    return !this.matching.isBusy && this.matches.length > 0;
  }

  goOn() {
    if (this.behind) this.next(this.behind);
    this.behind = 0;
  }

  // The match behind one, or before it; what is selected need be none.
  /** @param {number} by @param {number} selected @param {string} what @param {(one: number) => void} select */
  nextMatch(by, selected, what, select) {
    const { length } = this.matches,
      at = this.matches.indexOf(selected);
    const to = at < 0 ? (by > 0 ? 0 : length - 1) : (at + by + length) % length;
    select(this.matches[to]);
    this.say(`${Show.count(to + 1)} of ${Show.count(length)} ${what}`);
  }
}
