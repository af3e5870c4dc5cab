// @ts-check
// The roofline of a trace, and its tables.
import { openReport } from "./app.js";
import { Roofline } from "./roofline.js";
import { Tables } from "./tables.js";

openReport({ Roofline, Tables });
