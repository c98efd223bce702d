// Render formulas, on the first page and on each one that is loaded without leaving it.
const render = () => renderMathInElement(document.body, {
  delimiters: [
    { left: "\\(", right: "\\)", display: false },
    { left: "\\[", right: "\\]", display: true },
  ],
});
if (typeof document$ === "undefined") document.addEventListener("DOMContentLoaded", render);
else document$.subscribe(render);
