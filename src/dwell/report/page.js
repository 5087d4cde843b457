// The words of a bar or point, beside the pointer.
const tip = document.getElementById("tip");
document.addEventListener("pointermove", (event) => {
  const words = event.target.dataset?.tip;
  tip.hidden = !words;
  if (!words) return;
  tip.textContent = words;
  const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
  tip.style.left = `${left}px`;
  tip.style.top = `${event.clientY + 16}px`;
});
