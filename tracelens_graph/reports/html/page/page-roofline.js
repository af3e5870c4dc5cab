// @ts-check
// One view, as a notebook shows it.
import { openReport } from "./app.js";
import { Roofline } from "./roofline.js";

openReport({ Roofline });
