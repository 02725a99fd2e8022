// Draws the charts, in the colours of the style sheet, and again when these change: dark mode, print.
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);

  function painted(value, style) {
    if (Array.isArray(value)) return value.map((item) => painted(item, style));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, painted(item, style)]));
    }
    // A server may have such a name, too, for which there is no colour.
    const isToken = typeof value === "string" && /^@[a-z0-9]+$/.test(value);
    return (isToken && style.getPropertyValue("--" + value.slice(1)).trim()) || value;
  }

  function draw() {
    const style = getComputedStyle(document.documentElement);
    const family = getComputedStyle(document.body).fontFamily;
    for (const element of document.querySelectorAll("[data-figure]")) {
      const figure = painted(figures[element.dataset.figure], style);
      figure.layout.font.family = family;
      figure.layout.width = element.clientWidth;
      Plotly.react(element, figure.data, figure.layout, { displayModeBar: false });
    }
  }

  draw();
  let pending = 0;
  addEventListener("resize", () => {
    clearTimeout(pending);
    pending = setTimeout(draw, 120);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("paper");
    draw();
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("paper");
    draw();
  });
})();
