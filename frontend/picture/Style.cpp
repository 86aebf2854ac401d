//===- Style.cpp ----------------------------------------------------------===//
#include "frontend/picture/Style.h"

#include "frontend/picture/Text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numbers>

namespace ccl::picture {
namespace {

/// Lightness 0 to 1, chroma, hue in degrees (B. Ottosson, "A perceptual color space for image
/// processing", 2020).
std::string fromOklch(double lightness, double chroma, double hue) {
  const double a = chroma * std::cos(hue * std::numbers::pi / 180);
  const double b = chroma * std::sin(hue * std::numbers::pi / 180);
  const double l = std::pow(lightness + 0.3963377774 * a + 0.2158037573 * b, 3);
  const double m = std::pow(lightness - 0.1055613458 * a - 0.0638541728 * b, 3);
  const double s = std::pow(lightness - 0.0894841775 * a - 1.2914855480 * b, 3);
  const std::array<double, 3> linear = {4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
                                        -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
                                        -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s};
  std::string text = "#";
  for (double c : linear) {
    c = std::clamp(c, 0.0, 1.0);
    const double encoded = c <= 0.0031308 ? 12.92 * c : 1.055 * std::pow(c, 1 / 2.4) - 0.055;
    fmt::format_to(std::back_inserter(text), "{:02x}", int(std::lround(255 * encoded)));
  }
  return text;
}

constexpr std::string_view lightScheme = R"(
  --page:#f6f7f9; --card:#ffffff; --ink:#1b2330; --soft:#5a6675; --rule:#dde2e8; --lane:#f1f3f6;
  --frame:#f6f8fa; --node:#ffffff; --edge:#43506180; --accent:#1d4e89; --critical:#c2185b;
  --w:#3b6ea8; --l:#e59a86; --s:#eec46a; --d:#a9cbe8; --g:#a5d3b0; --b:#cbb7e3; --u:#c3c9d1;
  --c:#c9788f; --e:#e7eaee; --switch:#e3ecf7; --nic:#e4f2ea; --pcie:#f3ecdc; --cpu:#efe6f4;
)";
constexpr std::string_view darkScheme = R"(
  --page:#0f1319; --card:#171c24; --ink:#e4e9f0; --soft:#98a4b4; --rule:#2a323d; --lane:#1d232c;
  --frame:#1b212a; --node:#222a35; --edge:#93a0b180; --accent:#8ab8ee; --critical:#ff6fa5;
  --w:#6ea5e0; --l:#9c4f3f; --s:#8f6f22; --d:#2f5878; --g:#2f6a45; --b:#5d4786; --u:#4b5563;
  --c:#7d3a55; --e:#2a313b; --switch:#24344a; --nic:#213a30; --pcie:#3a3322; --cpu:#352a40;
)";

constexpr std::string_view rules = R"(
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
  font:14px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
  -webkit-text-size-adjust:100%}
main{max-width:1160px;margin:0 auto;padding:28px 20px 40px}
h1{font-size:24px;line-height:1.2;margin:0 0 4px;font-weight:650;overflow-wrap:anywhere}
h2{font-size:15px;margin:0 0 2px;font-weight:650}
p{margin:0 0 10px;color:var(--soft);max-width:80ch;overflow-wrap:anywhere}
small{font-size:12px;color:var(--soft)}
section{background:var(--card);border:1px solid var(--rule);border-radius:10px;
  padding:16px 18px;margin-top:14px}
.facts{display:flex;flex-wrap:wrap;gap:2px 18px;margin:0;color:var(--soft)}
.facts div{display:flex;gap:6px;min-width:0}
.facts dt{white-space:nowrap}
.facts dd{margin:0;color:var(--ink);overflow-wrap:anywhere;min-width:0}
.figures{display:grid;grid-template-columns:repeat(4,1fr);gap:14px;margin-top:16px}
.figure{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:12px 16px}
.figure b{display:block;font-size:25px;line-height:1.25;font-weight:650;
  font-variant-numeric:tabular-nums;white-space:nowrap}
.figure span{color:var(--soft);font-size:13px}
.ratio{display:block;height:6px;border-radius:3px;background:var(--e);margin-top:6px;overflow:hidden}
.ratio i{display:block;height:100%;background:var(--accent)}
.scroll{overflow-x:auto;min-width:0}
svg{display:block}
svg text{font-family:inherit;font-size:11px;fill:var(--ink);font-variant-numeric:tabular-nums}
svg .title,svg .caption{font-size:12px;font-weight:600;fill:var(--soft)}
.topology{width:100%;height:auto;margin:6px auto 2px}
.wires path{fill:none;stroke-linecap:round}
.frame{fill:var(--frame);stroke:var(--rule)}
.rank,.switch,.nic,.pcie,.cpu{stroke:var(--edge);fill:var(--node)}
.switch{fill:var(--switch)} .nic{fill:var(--nic)} .pcie{fill:var(--pcie)} .cpu{fill:var(--cpu)}
.rank{stroke-width:1.4}
.words text{pointer-events:none}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px;align-items:center;margin-top:10px;
  color:var(--soft);font-size:12px}
.legend span{display:inline-flex;align-items:center;gap:6px;white-space:nowrap}
.key{display:inline-block;width:16px;height:10px;border-radius:2px;margin-right:6px;
  vertical-align:-0.5px}
.legend .key{margin-right:0}
.legend .half{height:6px}
.scale{display:inline-flex!important;gap:0!important}
.scale i{width:22px;height:10px;display:block}
.scale b{font-weight:400;padding:0 7px}
.scale b:first-child{padding-left:0}
.shape{width:18px;height:12px;border:1.3px solid var(--edge);border-radius:3px}
.shape.switch{border-radius:6px;background:var(--switch)} .shape.nic{background:var(--nic)}
.shape.pcie{background:var(--pcie)} .shape.cpu{background:var(--cpu)}
.shape.rank{width:13px;height:13px;border-radius:4px;background:var(--node)}
.lanes{display:flex;margin-top:8px}
.names{flex:none}
.lanes .scroll{flex:1}
.plot{min-width:560px}
.heading{font-weight:600;fill:var(--soft)}
.names .heading{font-size:12px}
.lane{fill:var(--lane)}
.grid{stroke:var(--rule)}
.plot text{fill:var(--soft)}
.critical{pointer-events:none}
.critical rect{fill:none;stroke:var(--critical);stroke-width:1.5}
.critical line{stroke:var(--critical);stroke-width:1}
.key.path{background:none;border:1.5px solid var(--critical)}
.tables{display:grid;grid-template-columns:1fr;gap:14px}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;margin-top:6px}
th,td{text-align:right;padding:4px 0 4px 14px;border-bottom:1px solid var(--rule);
  white-space:nowrap;vertical-align:baseline}
th{font-weight:500;font-size:12px;color:var(--soft)}
tbody tr:last-child td{border-bottom:0}
.text{text-align:left;padding-left:0;white-space:normal;overflow-wrap:anywhere;min-width:140px}
.bar{width:22%;min-width:70px}
.meter{display:block;height:8px;background:var(--lane);border-radius:2px;overflow:hidden}
.meter i{display:block;height:100%;border-radius:2px}
.zoom{float:right;display:flex;gap:4px}
.zoom button{font:inherit;font-size:13px;line-height:1;min-width:30px;padding:6px 8px;
  color:var(--ink);background:var(--card);border:1px solid var(--rule);border-radius:6px;cursor:pointer}
.zoom button:hover{border-color:var(--soft)}
.tip{position:fixed;z-index:2;left:0;top:0;max-width:320px;padding:6px 9px;border-radius:6px;
  background:var(--ink);color:var(--card);font-size:12px;line-height:1.4;pointer-events:none;
  white-space:pre-line}
.fault{color:var(--critical);font-weight:500}
.notes{margin:10px 0 0;padding:0;list-style:none;color:var(--soft);font-size:12px}
footer{margin-top:14px;color:var(--soft);font-size:12px}
@media (max-width:720px){
  main{padding:18px 12px 28px}
  section{padding:14px 12px}
  h1{font-size:20px}
  .figures{grid-template-columns:repeat(2,1fr);gap:8px;margin-top:12px}
  .figure{padding:9px 12px}
  .figure b{font-size:20px}
  td,th{padding-left:8px}
  .bar{display:none}
  .scale i{width:15px}
  table{font-size:13px}
  .text{min-width:116px}
}
@media print{
  @page{margin:12mm}
  body{background:#fff;-webkit-print-color-adjust:exact;print-color-adjust:exact}
  main{max-width:none;padding:0}
  section,.figure{break-inside:avoid;border-color:#ccc}
  .zoom,.tip{display:none}
  .scroll{overflow:visible}
  .topology,.plot{min-width:0!important}
}
)";

} // namespace

std::string heatColor(int step, bool dark) {
  if (step <= 0)
    return dark ? "#343d49" : "#d5dae1";
  const double t = double(step - 1) / (heatSteps - 1);
  // Straw to wine on paper, ember to straw in the dark. Hues run through 360 degrees.
  const double bulge = std::sin(std::numbers::pi * t);
  return dark ? fromOklch(0.43 + 0.48 * t, 0.075 + 0.075 * bulge, 355 + 95 * t)
              : fromOklch(0.875 - 0.565 * t, 0.06 + 0.09 * bulge, 435 - 85 * t);
}

std::string style() {
  auto scheme = [](std::string_view names, bool dark) {
    std::string text = fmt::format(":root{{color-scheme:{};{}", dark ? "dark" : "light", names);
    for (int step = 0; step <= heatSteps; ++step)
      fmt::format_to(std::back_inserter(text), "--h{}:{};", step, heatColor(step, dark));
    // Words on tiles: against the lightness of the tile.
    for (int step = 0; step <= heatSteps; ++step) {
      const bool isLight = dark ? step > 5 : step <= 4;
      fmt::format_to(std::back_inserter(text), "--t{}:{};", step, isLight ? "#16181d" : "#ffffff");
    }
    return text + "}\n";
  };
  std::string text = "\n" + scheme(lightScheme, false) +
                     "@media screen and (prefers-color-scheme:dark){\n" + scheme(darkScheme, true) +
                     "}\n";
  for (int step = 0; step <= heatSteps; ++step)
    fmt::format_to(std::back_inserter(text),
                   ".wires .h{0}{{stroke:var(--h{0})}} .tile.h{0}{{fill:var(--h{0})}} "
                   ".b{0}{{background:var(--h{0})}} svg .t{0}{{fill:var(--t{0})}}\n",
                   step);
  for (char c : std::string_view("wlcsdgbue"))
    fmt::format_to(std::back_inserter(text),
                   ".plot .{0}{{fill:var(--{0})}} i.{0}{{background:var(--{0})}}\n", c);
  text += ".plot .m{fill:var(--w)}";
  return text + std::string(rules);
}

std::string script() {
  return R"(
(function () {
  'use strict';
  var names = {w: 'working', l: 'waiting: link busy', c: 'links change',
    s: 'waiting: no free slot',
    d: 'waiting: no data', g: 'waiting: no signal', b: 'waiting: micro-batch', u: 'launch'};
  var tip = document.createElement('div');
  tip.className = 'tip';
  tip.style.display = 'none';
  document.body.appendChild(tip);
  function us(value) { return (+value).toPrecision(6).replace(/\.?0+$/, '') + ' µs'; }
  function words(bar) {
    var data = bar.dataset, from = +data.begin, to = +data.end, text = '';
    if (data.t) { text = document.getElementById('texts').children[+data.t].textContent + '\n'; }
    if (data.count) { text += data.count + ' drawn together\n'; }
    if (data.work) { text += 'working for ' + us(data.work) + '\n'; }
    else { text += names[bar.getAttribute('class')] + '\n'; }
    return text + us(from) + ' to ' + us(to) + ': ' + us(to - from);
  }
  /* Titles are what browsers show by themselves; here they would be a second tip. */
  document.querySelectorAll('svg title').forEach(function (title) {
    title.parentNode.setAttribute('data-tip', title.textContent);
    title.remove();
  });
  document.addEventListener('pointermove', function (event) {
    var at = event.target.closest ? event.target.closest('[data-tip], rect[data-begin]') : null;
    if (!at) { tip.style.display = 'none'; return; }
    tip.textContent = at.getAttribute('data-tip') || words(at);
    tip.style.display = 'block';
    var x = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
    var y = event.clientY + 18;
    if (y + tip.offsetHeight > window.innerHeight) { y = event.clientY - tip.offsetHeight - 10; }
    tip.style.transform = 'translate(' + Math.max(8, x) + 'px,' + y + 'px)';
  });
  var plot = document.querySelector('.plot');
  if (!plot) { return; }
  var scroll = plot.parentNode, zoom = 1;
  function magnify(factor, x) {
    var before = zoom;
    zoom = Math.min(64, Math.max(1, zoom * factor));
    var middle = (scroll.scrollLeft + x) / before;
    plot.setAttribute('width', 100 * zoom + '%');
    scroll.scrollLeft = middle * zoom - x;
  }
  var buttons = document.createElement('div');
  buttons.className = 'zoom';
  [['−', 0.5, 'Narrower'], ['+', 2, 'Wider'], ['Fit', 0, 'All of it']].forEach(function (b) {
    var button = document.createElement('button');
    button.type = 'button';
    button.textContent = b[0];
    button.title = b[2];
    button.onclick = function () { magnify(b[1], scroll.clientWidth / 2); };
    buttons.appendChild(button);
  });
  var home = document.getElementById('timeline');
  home.insertBefore(buttons, home.firstChild);
  scroll.addEventListener('wheel', function (event) {
    if (!event.ctrlKey) { return; }
    event.preventDefault();
    magnify(event.deltaY > 0 ? 0.8 : 1.25, event.clientX - scroll.getBoundingClientRect().left);
  }, {passive: false});
})();
)";
}

} // namespace ccl::picture
