#include "dialect/simulate/Measurements.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>

using namespace ccl::model;

namespace {

using Points = std::vector<CurvePoint>;

const char *const ncclTests =
    R"(# nThread 1 nGpus 8 minBytes 8 maxBytes 64 step: 2(factor) warmup iters: 5 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid  17 on      node0 device  0 [0x1b] NVIDIA H100
NCCL version 2.21.5+cuda12.4
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    14.20    0.00    0.00      0    13.95    0.00    0.00      0
node0:17:99 [0] NCCL INFO comm 0x55 rank 0 nRanks 8 - Init COMPLETE
    33554432       8388608     float     sum      -1    262.0  128.07  224.13      0    260.9  128.61  225.07    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 112.3
)";

/// Of a text without faults.
std::vector<MeasuredCurve> curvesOf(std::string_view text) {
  const Measurements read = readMeasurements(text);
  REQUIRE(read.error == "");
  return read.curves;
}

} // namespace

TEST_CASE("nccl-tests' table") {
  const std::vector<MeasuredCurve> curves = curvesOf(ncclTests);
  REQUIRE(curves.size() == 2);
  CHECK(curves[0].name == "out-of-place");
  CHECK(curves[0].points == Points{{8, 14.2}, {33554432, 262}});
  CHECK(curves[1].name == "in-place");
  CHECK(curves[1].points == Points{{8, 13.95}, {33554432, 260.9}});
}

TEST_CASE("nccl-tests' table where redop and root are blank, and lines are tagged") {
  const std::vector<MeasuredCurve> curves = curvesOf(
      "[1,0]<stdout>:#       size         count      type   redop    root     time   algbw   busbw "
      "#wrong\n"
      "[1,0]<stdout>:     1048576         65536     float                   31.07   33.75   29.53  "
      "    0\n"
      "[1,0]<stdout>:     2097152        131072     float    none      -1    45.25   46.35   40.55 "
      "     0\r\n");
  REQUIRE(curves.size() == 1);
  CHECK(curves[0].points == Points{{1048576, 31.07}, {2097152, 45.25}});
}

TEST_CASE("nccl-tests' older table, without its signs of comments") {
  const std::vector<MeasuredCurve> curves = curvesOf(
      "                                     out-of-place                  in-place\n"
      "   size  count   type redop    time  algbw  busbw  error    time  algbw  busbw  error\n"
      "    (B)  (elem)                (us) (GB/s) (GB/s)           (us) (GB/s) (GB/s)\n"
      "8388608 2097152  float   sum  5729.5  1.46   1.46  0e+00  5477.3  1.53   1.53  1e+00\n");
  REQUIRE(curves.size() == 2);
  CHECK(curves[0].points == Points{{8388608, 5729.5}});
  CHECK(curves[1].points == Points{{8388608, 5477.3}});
}

TEST_CASE("a bad line of nccl-tests is named") {
  const std::string heading = "# size count type redop root time algbw busbw #wrong\n";
  std::string line, error;
  SUBCASE("too short") {
    line = "8 2 float sum -1 14.2\n", error = "6 columns; the heading names 9: size count type "
                                              "redop root time algbw busbw #wrong";
  }
  SUBCASE("too long") {
    line = "8 2 float sum -1 14.2 0 0 0 13 0 0 0\n",
    error = "13 columns; the heading names 9: size count type redop root time algbw busbw #wrong";
  }
  SUBCASE("size") {
    line = "8x 2 float sum -1 14.2 0 0 0\n", error = "the size '8x' is not a number of 0 or more";
  }
  SUBCASE("time") {
    line = "8 2 float sum -1 nan 0 0 0\n", error = "the time 'nan' is not a number above 0";
  }
  SUBCASE("no time at all") {
    line = "8 2 float sum -1 0.00 0 0 0\n", error = "the time '0.00' is not a number above 0";
  }
  Measurements read = readMeasurements(heading + "4 1 float sum -1 3.5 0 0 0\n" + line);
  CHECK(read.error == error);
  CHECK(read.line == 3);
  CHECK(read.curves.empty());
}

TEST_CASE("CSV: columns tell curves apart, the unit is in the name") {
  std::vector<MeasuredCurve> curves =
      curvesOf("num_workers,devices_per_node,size_bytes,min_ms,median_ms,"
               "max_ms\n"
               "2,1,2048,0.0310,0.0430,0.0770\n"
               "8,8,2048,0.06,0.0625,0.065\n"
               "\n"
               "# later\n"
               "2,1,10240,0.0400,0.0560,0.0750\n");
  REQUIRE(curves.size() == 2);
  CHECK(curves[0].name == "num_workers=2 devices_per_node=1");
  REQUIRE(curves[0].points.size() == 2);
  CHECK(curves[0].points[0].bytes == 2048);
  CHECK(curves[0].points[0].us == doctest::Approx(43));
  CHECK(curves[0].points[1].us == doctest::Approx(56));
  CHECK(curves[1].points[0].us == doctest::Approx(62.5));
}

TEST_CASE("CSV: other names, units and quotes") {
  std::vector<MeasuredCurve> curves = curvesOf("\xef\xbb\xbf"
                                               "\"op\", Size (KiB) , busbw (GB/s),time (us)\r\n"
                                               "\"sum, of floats\",1,3.5,7\r\n");
  REQUIRE(curves.size() == 1);
  CHECK(curves[0].name == "op=sum, of floats");
  CHECK(curves[0].points == Points{{1024, 7}});
  curves = curvesOf("bytes,avg_us,max_us,us\n1,2,9,3\n");
  CHECK(curves[0].name == "");
  CHECK(curves[0].points == Points{{1, 3}});
}

TEST_CASE("CSV: what is wrong, and where") {
  std::string text, error;
  int line = 1;
  SUBCASE("nothing") {
    text = "", error = "there is nothing in it: no header, no measurements", line = 0;
  }
  SUBCASE("no size") {
    text = "a,us\n1,2\n",
    error = "no column is a size, as 'size_bytes' or 'bytes' would be; there are: a, us";
  }
  SUBCASE("no time") {
    text = "bytes,latency\n1,2\n",
    error = "no column is a time with its unit, as 'median_ms' or 'time_us' would be; there are: "
            "bytes, latency";
  }
  SUBCASE("only a header") {
    text = "bytes,us\n", error = "there is a header, but no measurement below it";
  }
  SUBCASE("fields") { text = "bytes,us\n1,2\n3\n", error = "1 fields; the header has 2", line = 3; }
  SUBCASE("quote") { text = "bytes,us\n\"1,2\n", error = "a quote is not closed", line = 2; }
  SUBCASE("size") {
    text = "bytes,us\n-1,2\n", error = "the size '-1' is not a number of 0 or more", line = 2;
  }
  SUBCASE("time") {
    text = "bytes,us\n1,fast\n", error = "the time 'fast' is not a number above 0", line = 2;
  }
  SUBCASE("infinite") {
    text = "bytes,us\n1,1e999\n", error = "the time '1e999' is not a number above 0", line = 2;
  }
  Measurements read = readMeasurements(text);
  CHECK_FALSE(read.ok());
  CHECK(read.error == error);
  CHECK(read.line == line);
}

TEST_CASE("whatever the text, there are curves or there is a line to look at") {
  const std::string seeds[] = {
      ncclTests, "num_workers,size_bytes,min_ms,median_ms\n2,2048,0.03,0.04\n2,10240,\"1\",2\n",
      "# size count type redop root time algbw busbw\n8 2 float sum -1 14.2 0 0\n"};
  const std::string_view words[] = {"\n",  ",",    "\"", "#",    "time", "busbw", "-1", "1e308",
                                    "nan", "size", "\0", "\r\n", " ",    "us",    "9"};
  std::mt19937 random(11);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = seeds[random() % 3];
    for (size_t edits = 1 + random() % 4; edits > 0; --edits) {
      size_t at = random() % (text.size() + 1), length = random() % 12;
      switch (random() % 3) {
      case 0: text.erase(at, length); break;
      case 1: text.insert(at, words[random() % std::size(words)]); break;
      default: text.insert(at, text.substr(random() % (text.size() + 1), length)); break;
      }
    }
    Measurements read = readMeasurements(text);
    if (read.ok()) {
      REQUIRE_FALSE(read.curves.empty());
      for (const MeasuredCurve &curve : read.curves) {
        REQUIRE_FALSE(curve.points.empty());
        std::string why;
        REQUIRE_MESSAGE(fit(curve.points, {}, &why), why);
      }
    } else {
      ++refused;
      REQUIRE(read.curves.empty());
      REQUIRE(read.line <= 1 + std::count(text.begin(), text.end(), '\n'));
    }
  }
  CHECK(refused > 1000);
}
