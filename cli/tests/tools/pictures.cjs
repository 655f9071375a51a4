// Takes the pictures of compiler/docs/report.md: node pictures.cjs REPORT FOLDER
"use strict";
const { chromium } = require("playwright-core");
const path = require("path");

const VIEW = { width: 1100, height: 760 };

(async () => {
  const [report, folder] = process.argv.slice(2);
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    headless: true,
    args: ["--no-sandbox", "--disable-gpu"],
  });
  const open = async (colorScheme, panel) => {
    const page = await browser.newPage({ colorScheme, viewport: VIEW });
    await page.goto(`file://${path.resolve(report)}`);
    await page.locator(panel).evaluate((panel) => panel.scrollIntoView());
    return page;
  };
  const plan = await open("light", "#plan");
  await plan.locator("#steps .line .collective").first().hover();
  await plan.screenshot({ path: path.join(folder, "report-plan.png") });
  const timeline = await open("dark", "#timeline");
  await timeline.screenshot({ path: path.join(folder, "report-timeline.png") });
  await browser.close();
})().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
