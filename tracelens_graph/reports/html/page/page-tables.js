// @ts-check
// One view, as a notebook shows it.
import { openReport } from "./app.js";
import { Tables } from "./tables.js";

openReport({ Tables });
