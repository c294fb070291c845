// Redraws the guide's bars while their slider is pulled; what they show was computed when the site was built.
for (const figure of document.querySelectorAll("figure.memory")) {
  const frames = JSON.parse(figure.dataset.frames);
  const [slider, said] = [figure.querySelector("input"), figure.querySelector("label output")];
  const rows = [...figure.querySelectorAll(".memory-row")];
  const draw = () => {
    const frame = frames[slider.value];
    said.textContent = frame.value;
    slider.setAttribute("aria-valuetext", frame.value);
    rows.forEach((row, index) => {
      const { link, total, widths } = frame.rows[index];
      row.querySelector("a").href = link;
      row.querySelector("output").textContent = total;
      [...row.querySelectorAll("i")].forEach((part, number) => { part.style.width = `${widths[number]}%`; });
    });
  };
  slider.addEventListener("input", draw);
  draw(); // a browser keeps where a slider was when the page is loaded again
}
