// Opens pages in Chromium and prints every fault, a line each; nothing if there is none.
// node report.cjs PAGE…, which are those of `plan` if their names begin with `plan-`
"use strict";
const { chromium } = require("playwright-core");
const path = require("path");

const ARGUMENTS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];
const PANELS = [
  "summary", "plan", "timeline", "memory", "arrays", "graph", "roofline", "textbook", "findings",
];
// The panels of other pages, by the beginning of their names.
const OTHERS = {
  cost: ["summary", "statements", "roofline", "crossovers"],
  diff: ["totals", "steps"],
  sweep: ["points"],
  tune: ["strategies", "program", "plan"],
};
const PHONE = { width: 380, height: 800 };
const DESK = { width: 1300, height: 900 };

// In the page: texts with less contrast than WCAG 2.2 asks for (level AA, 4.5 to 1).
function faintTexts() {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const known = new Map();
  // Any CSS colour as red, green, blue and alpha.
  const channels = (color) => {
    if (!known.has(color)) {
      context.clearRect(0, 0, 1, 1);
      context.fillStyle = color;
      context.fillRect(0, 0, 1, 1);
      known.set(color, [...context.getImageData(0, 0, 1, 1).data]);
    }
    return known.get(color);
  };
  const luminance = (color) => {
    const [r, g, b] = channels(color).map((channel) => {
      const share = channel / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const background = (element) => {
    const node = element.closest(".graph g");
    if (node && !element.classList.contains("sharding")) {
      return getComputedStyle(node.querySelector("rect")).fill;
    }
    for (let at = element; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (channels(color)[3] === 255) return color;
    }
    return "white";
  };
  const faint = new Map();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const isShown = texts.currentNode.data.trim() && element.getClientRects().length;
    if (!isShown || ["SCRIPT", "STYLE", "TITLE", "title"].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    const color = element instanceof SVGElement ? style.fill : style.color;
    const [dark, light] = [luminance(color), luminance(background(element))].sort((a, b) => a - b);
    const ratio = (light + 0.05) / (dark + 0.05);
    const where = `${element.tagName}.${element.className.baseVal ?? element.className}`;
    if (ratio < 4.5) faint.set(where, `${where} "${texts.currentNode.data}": ${ratio.toFixed(2)}`);
  }
  return [...faint.values()];
}

// Points at an element that does not move any more: the page hides its card when it is scrolled.
async function pointAt(page, element) {
  await element.scrollIntoViewIfNeeded();
  const frames = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  await page.evaluate(frames);
  await element.hover();
}

async function pointer(page, fault) {
  const isShown = (id) => page.locator(`#${id}`).isVisible();
  const name = page.locator("#source [data-n]").last();
  await pointAt(page, name);
  if (!(await isShown("tip"))) fault("pointing at a value shows nothing");
  const words = await page.locator("#tip").innerText();
  for (const part of ["in all", "a device:", "kept:"]) {
    if (!words.includes(part)) fault(`the card of a value lacks "${part}": ${words}`);
  }
  await name.click();
  if (!(await isShown("card"))) fault("a click shows no card");
  for (const pane of ["#source", "#steps"]) {
    if (!(await page.locator(`${pane} .on`).count())) fault(`nothing is marked in ${pane}`);
  }
  const isInView = await page.evaluate(() => {
    const [pane, mark] = ["#steps", "#steps .on"].map((path) => document.querySelector(path));
    const [outer, inner] = [pane.getBoundingClientRect(), mark.getBoundingClientRect()];
    return outer.top <= inner.top && inner.bottom <= outer.bottom;
  });
  if (!isInView) fault("the plan is not scrolled to the value that is followed");
  await page.keyboard.press("Escape");
  if ((await isShown("card")) || (await page.locator(".on").count())) fault("Escape closes nothing");
  const collective = page.locator("#steps .line .collective:not(.k-Slice)").first();
  await pointAt(page, collective);
  if (!(await page.locator("#tip").innerText()).includes("needed by")) {
    fault("a collective has no reason");
  }
  await page.locator("#timeline rect[data-step]").first().click();
  if (!(await page.locator("#graph g.on").count())) fault("a click on the timeline marks no node");
  await page.locator("#close").click();
  await page.locator("#find").fill("no such value");
  await page.locator("#find").press("Enter");
  if (await isShown("card")) fault("a name that is none has a card");
  const wide = page.locator(".wide").first();
  const before = (await wide.boundingBox()).width;
  await page.getByRole("button", { name: "4×" }).click();
  if ((await wide.boundingBox()).width < 3.9 * before) fault("zooming widens nothing");
}

// A table is sorted by a click on the head of a column, and a line of it has a card if it is about a
// step.
async function table(page, fault) {
  const column = "th.n button";
  if (!(await page.locator(column).count())) return fault("no table has numbers");
  const quantities = () =>
    page.evaluate((path) => {
      const head = document.querySelector(path).closest("th");
      const rows = [...head.closest("table").tBodies[0].rows];
      const cells = rows.map((row) => row.cells[head.cellIndex].dataset.quantity);
      return cells.filter((cell) => cell !== undefined).map(Number);
    }, column);
  for (const sign of [1, -1]) {
    await page.locator(column).first().click();
    const found = await quantities();
    const wanted = [...found].sort((a, b) => sign * (a - b));
    if (found.join() !== wanted.join()) fault(`a click does not sort: ${found}`);
  }
  const line = page.locator("tr[data-step]").first();
  if (!(await line.count())) return;
  await pointAt(page, line);
  if (!(await page.locator("#tip").isVisible())) fault("pointing at a line shows nothing");
  await line.click();
  if (!(await page.locator("#card").isVisible())) fault("a click on a line shows no card");
  await page.keyboard.press("Escape");
}

async function check(browser, file, scheme, report) {
  const context = await browser.newContext({ colorScheme: scheme, viewport: DESK });
  const fault = (text) => report(`${path.basename(file)}, ${scheme}: ${text}`);
  const page = await context.newPage();
  page.setDefaultTimeout(3000);
  page.on("console", (message) => fault(`console: ${message.text()}`));
  page.on("pageerror", (error) => fault(`error: ${error.message}`));
  page.on("request", (request) => {
    if (!/^(file|data):/.test(request.url())) fault(`asks the network for ${request.url()}`);
  });
  await page.goto(`file://${path.resolve(file)}`);
  const opened = await page.evaluate(() => performance.getEntriesByType("navigation")[0].duration);
  if (opened > 1000) fault(`opens in ${opened.toFixed(0)} ms`);
  const kind = path.basename(file).split(/[-.]/)[0];
  for (const id of OTHERS[kind] ?? PANELS) {
    const box = await page.locator(`section#${id}`).boundingBox();
    if (!box || box.height < 60) fault(`the panel ${id} is empty`);
  }
  for (const text of await page.evaluate(faintTexts)) fault(`contrast: ${text}`);
  const act = kind in OTHERS ? table : pointer;
  await act(page, fault).catch((error) => fault(error.message.split("\n")[0]));
  await page.setViewportSize(PHONE);
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  if (width > PHONE.width) fault(`is ${width} pixels wide on a phone`);
  await page.emulateMedia({ media: "print" });
  if (await page.locator("nav").isVisible()) fault("the links are printed");
  await context.close();
}

(async () => {
  const executablePath = process.env.CHROMIUM || "/usr/bin/chromium";
  const browser = await chromium.launch({ executablePath, headless: true, args: ARGUMENTS });
  const faults = [];
  for (const file of process.argv.slice(2)) {
    for (const scheme of ["light", "dark"]) {
      await check(browser, file, scheme, (fault) => faults.push(fault));
    }
  }
  await browser.close();
  process.stdout.write(faults.map((fault) => `${fault}\n`).join(""));
})().catch((error) => {
  process.stdout.write(`${error.stack}\n`);
  process.exitCode = 1;
});
