#include "frontend/picture/Text.h"
#include "frontend/picture/Style.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>

using namespace ccl::picture;

TEST_CASE("text is escaped") {
  CHECK(escape("a <b> & \"c\" 'd'") == "a &lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  CHECK(escape("µ → …") == "µ → …");
  const std::string bad = "\xEF\xBF\xBD";
  CHECK(escape(std::string_view("a\0b", 3)) == "a" + bad + "b");
  CHECK(escape("\x1b[1m\x7f") == bad + "[1m" + bad);
  CHECK(escape("\xff") == bad);
  CHECK(escape("\xc3") == bad);                     // cut off
  CHECK(escape("\xc0\xaf") == bad + bad);           // overlong
  CHECK(escape("\xed\xa0\x80") == bad + bad + bad); // a surrogate
  CHECK(escape("\xf0\x9f\x9a\x80") == "\xf0\x9f\x9a\x80");
}

TEST_CASE("numbers have units") {
  CHECK(time(0) == "0 µs");
  CHECK(time(0.12345) == "0.123 µs");
  CHECK(time(812.44) == "812.4 µs");
  CHECK(time(9999) == "9999 µs");
  CHECK(time(12345) == "12.35 ms");
  CHECK(time(2.5e7) == "25 s");
  CHECK(time(std::nan("")) == "0 µs");
  CHECK(time(2000, 11100) == "2 ms");
  CHECK(bytes(17) == "17 B");
  CHECK(bytes(1536) == "1.5 KiB");
  CHECK(bytes(256 << 20) == "256 MiB");
  CHECK(bytes(1.5 * std::pow(1024.0, 4)) == "1.5 TiB");
  CHECK(rate(165.32) == "165.3 GB/s");
  CHECK(percent(0.9184) == "91.8 %");
  CHECK(percent(1) == "100 %");
  CHECK(fixed(-0.0001, 2) == "0");
  CHECK(fixed(12.5, 4) == "12.5");
  CHECK(fixed(100, 0) == "100");
}

TEST_CASE("text is cut to the room there is") {
  for (std::string_view text : {"", "nic0", "a switch with a very long name", "µµµµµµµµµµµµ"})
    for (double width = 0; width < 250; width += 7) {
      const std::string shown = fit(text, 11, width);
      CHECK(textWidth(shown, 11) <= width);
      if (shown != text && !shown.empty())
        CHECK(shown.ends_with("…"));
      CHECK((textWidth(text, 11) > width || shown == text));
    }
  CHECK(escape(fit("µµµµµµµµ", 11, 40)).find("\xEF\xBF\xBD") == std::string::npos);
}

TEST_CASE("steps of use") {
  CHECK(heatStep(0) == 0);
  CHECK(heatStep(-1) == 0);
  CHECK(heatStep(std::nan("")) == 0);
  CHECK(heatStep(1e-6) == 1);
  CHECK(heatStep(0.1) == 1);
  CHECK(heatStep(0.11) == 2);
  CHECK(heatStep(1) == heatSteps);
  CHECK(heatStep(7) == heatSteps);
}

// WCAG 2: relative luminance.
static double luminance(const std::string &color) {
  REQUIRE(color.size() == 7);
  std::array<double, 3> part;
  for (size_t i = 0; i < 3; ++i) {
    const double c = double(std::stoi(color.substr(1 + 2 * i, 2), nullptr, 16)) / 255;
    part[i] = c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  }
  return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
}

TEST_CASE("more use is more contrast, in lightness alone") {
  for (bool dark : {false, true}) {
    const double page = dark ? 0.01 : 1;
    double last = 1;
    for (int step = 1; step <= heatSteps; ++step) {
      const double light = luminance(heatColor(step, dark));
      const double contrast = (std::max(light, page) + 0.05) / (std::min(light, page) + 0.05);
      CAPTURE(step);
      CHECK(contrast > last * 1.08);
      last = contrast;
    }
    CHECK(last > 10);
  }
}
