// Answers to the pointer: what a value or a step is, and where a value appears. The page is complete
// without it. Text reaches the page through textContent only.
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const card = document.getElementById("card");
  const about = document.getElementById("about");
  const tip = document.getElementById("tip");
  const find = document.getElementById("find");
  const MOST_BLOCKS = 16;

  const element = (name, text, parent, className) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    if (parent) parent.append(made);
    return made;
  };

  // The blocks of an array; the first device's stands out.
  const drawing = ([down, across, isPartial, words]) => {
    const SVG = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", "-1 -1 74 44");
    svg.setAttribute("class", isPartial ? "blocks partial" : "blocks");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", words);
    const add = (name, attributes) => {
      const shape = document.createElementNS(SVG, name);
      for (const [key, value] of Object.entries(attributes)) shape.setAttribute(key, value);
      svg.append(shape);
    };
    const [rows, columns] = [Math.min(down, MOST_BLOCKS), Math.min(across, MOST_BLOCKS)];
    add("rect", { width: 72, height: 42, class: "all" });
    add("rect", { width: 72 / columns, height: 42 / rows, class: "own" });
    let path = "";
    for (let row = 1; row < rows; row++) path += `M0 ${(42 * row) / rows}h72`;
    for (let column = 1; column < columns; column++) path += `M${(72 * column) / columns} 0v42`;
    add("path", { d: path || "M0 0", class: "cuts" });
    return svg;
  };

  // Words with parts of programs between backquotes.
  const list = (items, parent, className) => {
    const made = element("ul", undefined, parent, className);
    for (const item of items) {
      const words = element("li", undefined, made);
      item.split("`").forEach((part, number) => {
        if (number % 2) element("code", part, words);
        else words.append(part);
      });
    }
  };

  // The values that a name stands for: itself, or those that the compiler made of it.
  const named = (name) =>
    name in data.values
      ? [name]
      : Object.keys(data.values).filter((other) => data.values[other].base === name);

  const aboutValue = (name) => {
    const part = document.createDocumentFragment();
    for (const each of named(name).slice(0, 4)) {
      const value = data.values[each];
      element("h4", each, part);
      element("p", `${value.what}; ${value.shape}, ${value.bytes} in all`, part);
      for (const form of value.forms) {
        const row = element("div", undefined, part, "form");
        row.append(drawing(form.blocks));
        const words = element("div", undefined, row);
        element("code", form.text, words);
        const local = `a device: ${form.local ? `${form.local}, ` : ""}${form.bytes}`;
        element("div", `${local}; ${form.blocks[3]}; kept: ${form.kept}`, words, "muted");
      }
    }
    return part;
  };

  const aboutStep = (number) => {
    const part = document.createDocumentFragment();
    const step = data.steps[number];
    element("h4", step.name, part);
    element("code", step.text, part);
    element("p", step.facts.join("; "), part);
    if (step.why.length) list(step.why, part, "why");
    return part;
  };

  // What an element is about: a value, or a step with the value that it makes.
  const subject = (target) => {
    const of = target instanceof Element ? target.closest("[data-n], [data-step]") : null;
    if (!of) return null;
    if (of.dataset.n !== undefined) return { value: of.dataset.n };
    return { step: Number(of.dataset.step), value: data.steps[of.dataset.step].value };
  };

  const describe = (of) => (of.step === undefined ? aboutValue(of.value) : aboutStep(of.step));

  const place = (x, y) => {
    const [width, height] = [tip.offsetWidth, tip.offsetHeight];
    const left = Math.max(8, Math.min(x + 14, innerWidth - width - 8));
    const below = y + 18 + height < innerHeight;
    tip.style.left = `${left}px`;
    tip.style.top = `${below ? y + 18 : Math.max(8, y - height - 12)}px`;
  };

  const hide = () => {
    tip.hidden = true;
  };

  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    const of = subject(event.target);
    if (!of || card.contains(event.target)) return hide();
    tip.replaceChildren(describe(of));
    tip.hidden = false;
    place(event.clientX, event.clientY);
  });
  document.addEventListener("scroll", hide, { capture: true, passive: true });

  // Shows a mark in its pane, without moving the page.
  const reveal = (mark) => {
    const pane = mark && mark.closest(".text");
    if (!pane) return;
    pane.scrollTop = mark.offsetTop - pane.clientHeight / 2;
  };

  const follow = (of) => {
    for (const mark of document.querySelectorAll(".on")) mark.classList.remove("on");
    const names = new Set(named(of.value));
    const base = data.values[of.value] ? data.values[of.value].base : of.value;
    const source = document.getElementById("source");
    const isMarked = (mark) =>
      names.has(mark.dataset.n) || (source.contains(mark) && mark.dataset.n === base);
    const marks = [...document.querySelectorAll("[data-n]")].filter(isMarked);
    for (const mark of marks) mark.classList.add("on");
    const steps = data.steps.map((step, number) => [step, number]);
    for (const [step, number] of steps) {
      if (!names.has(step.value)) continue;
      for (const mark of document.querySelectorAll(`svg [data-step="${number}"], tr[data-step="${number}"]`)) {
        mark.classList.add("on");
      }
    }
    const inPlan = document.querySelector(`#steps [data-step="${of.step}"]`);
    reveal(inPlan || marks.find((mark) => mark.closest("#steps")));
    reveal(marks.find((mark) => mark.closest("#source")));
    about.replaceChildren(describe(of));
    if (of.step !== undefined) about.append(aboutValue(of.value));
    card.hidden = false;
    hide();
  };

  const close = () => {
    card.hidden = true;
    for (const mark of document.querySelectorAll(".on")) mark.classList.remove("on");
  };

  document.addEventListener("click", (event) => {
    const of = card.contains(event.target) ? null : subject(event.target);
    if (of) follow(of);
  });
  document.getElementById("close").addEventListener("click", close);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
  });

  if (find) {
    const names = document.getElementById("names");
    for (const name of Object.keys(data.values)) element("option", undefined, names).value = name;
    find.addEventListener("change", () => {
      if (named(find.value).length) follow({ value: find.value });
    });
  }

  // Sorts a table by a column, and the other way round at the next click.
  const sort = (head) => {
    const [table, column] = [head.closest("table"), head.cellIndex];
    const ascends = head.getAttribute("aria-sort") !== "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", ascends ? "ascending" : "descending");
    const compare = (a, b) => {
      const [one, two] = [a.cells[column], b.cells[column]];
      const [first, second] = [one, two].map((cell) => Number(cell.dataset.quantity ?? NaN));
      // Cells without a quantity come last.
      if (isNaN(first) !== isNaN(second)) return isNaN(first) ? 1 : -1;
      const words = one.textContent.localeCompare(two.textContent, undefined, { numeric: true });
      return (isNaN(first) ? words : first - second) * (ascends ? 1 : -1);
    };
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
  };
  document.addEventListener("click", (event) => {
    if (event.target.classList.contains("sort")) sort(event.target.closest("th"));
  });

  const graph = document.querySelector(".graph");
  const first = graph && graph.querySelector("[data-step]");
  if (first) {
    const [box, pane] = [first.getBoundingClientRect(), graph.getBoundingClientRect()];
    graph.scrollLeft = (box.left + box.right - pane.left - pane.right) / 2;
  }

  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => {
      for (const other of document.querySelectorAll("[data-zoom]")) {
        other.setAttribute("aria-pressed", String(other === button));
      }
      document.documentElement.style.setProperty("--zoom", button.dataset.zoom);
    });
  }
})();
