// Draws flame graphs as SVG from [name, microseconds a query, [children]], both servers' on one scale. A click zooms.
(() => {
  const graphs = JSON.parse(document.getElementById("graphs").textContent);
  const ROW = 17;
  const SVG = "http://www.w3.org/2000/svg";

  function hue(name) {
    let sum = 0;
    for (const letter of name) sum = (sum * 31 + letter.codePointAt(0)) % 997;
    return name.endsWith("_[k]") ? 205 + (sum % 20) : name.endsWith("_[i]") ? 110 + (sum % 30) : 14 + (sum % 38);
  }

  function depth(frame) {
    return 1 + Math.max(0, ...frame[2].map(depth));
  }

  function element(name, attributes, parent) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent.append(made);
    return made;
  }

  function draw(holder) {
    const pair = graphs[holder.dataset.load];
    const root = pair[Number(holder.dataset.side)];
    const widest = Math.max(pair[0][1], pair[1][1]);
    const top = holder.zoomed || root;
    const said = holder.parentElement.querySelector(".said");
    const width = holder.clientWidth;
    const scale = width / (top === root ? widest : top[1]);
    holder.replaceChildren();
    const svg = element("svg", { width, height: depth(top) * ROW, role: "img", "aria-label": "flame graph" }, holder);

    function frame(each, left, row) {
      const wide = each[1] * scale;
      if (wide < 0.5) return;
      const group = element("g", {}, svg);
      const colour = `hsl(${hue(each[0])} 68% ${72 - (row % 2) * 4}%)`;
      const box = { x: left, y: row * ROW, width: Math.max(0.4, wide - 0.5), height: ROW - 1, fill: colour, rx: 1 };
      const rectangle = element("rect", box, group);
      rectangle.classList.toggle("found", holder.wanted !== "" && holder.wanted !== undefined && each[0].includes(holder.wanted));
      const letters = Math.floor(wide / 6.6);
      if (letters > 3) {
        const text = element("text", { x: left + 3, y: row * ROW + 12 }, group);
        text.textContent = each[0].length > letters ? each[0].slice(0, letters - 1) + "…" : each[0];
      }
      const share = ((100 * each[1]) / root[1]).toFixed(1);
      element("title", {}, group).textContent = `${each[0]}: ${each[1].toFixed(2)} µs a query, ${share} %`;
      group.addEventListener("mouseenter", () => {
        said.textContent = `${each[0]}: ${each[1].toFixed(2)} µs a query, ${share} %`;
      });
      group.addEventListener("click", () => {
        holder.zoomed = each === top ? undefined : each;
        draw(holder);
      });
      let from = left;
      for (const child of each[2]) {
        frame(child, from, row + 1);
        from += child[1] * scale;
      }
    }
    frame(top, 0, 0);
  }

  const holders = [...document.querySelectorAll("[data-load]")];
  for (const holder of holders) draw(holder);
  for (const box of document.querySelectorAll("[data-search]")) {
    box.addEventListener("input", () => {
      for (const holder of holders.filter((each) => each.dataset.load === box.dataset.search)) {
        holder.wanted = box.value;
        draw(holder);
      }
    });
  }
  let pending = 0;
  addEventListener("resize", () => {
    clearTimeout(pending);
    pending = setTimeout(() => holders.forEach(draw), 120);
  });
})();
