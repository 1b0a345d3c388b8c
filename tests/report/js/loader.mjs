// Resolves the names of the page's import map, "stepscope/app.js", to the modules they stand for.
// Use: node --import ./tests/report/js/loader.mjs --test tests/report/js/*.test.mjs

import { register } from "node:module";

const STATIC = new URL("../../../src/stepscope/report/static/", import.meta.url).href;

const hook = `
export function resolve(name, context, next) {
  const prefix = "stepscope/";
  return next(name.startsWith(prefix) ? ${JSON.stringify(STATIC)} + name.slice(prefix.length) : name, context);
}
`;

register(`data:text/javascript,${encodeURIComponent(hook)}`);
