//===- TreePairs.cpp - The linear program of pairs of trees ---------------===//

#include "dialect/bound/TreePairs.h"

#include <algorithm>

namespace ccl::model {

/// One term for each column.
static std::vector<Lp::Term> joined(std::vector<Lp::Term> terms) {
  std::sort(terms.begin(), terms.end(),
            [](const Lp::Term &one, const Lp::Term &other) { return one.column < other.column; });
  size_t size = 0;
  for (const Lp::Term &term : terms)
    if (size > 0 && terms[size - 1].column == term.column)
      terms[size - 1].coefficient += term.coefficient;
    else
      terms[size++] = term;
  terms.resize(size);
  return terms;
}

TreePairs::TreePairs(const Fabric &fabric, const Orbits &orbits, Switches switches, double gap,
                     Clock::time_point end)
    : fabric(fabric), orbits(orbits), switches(switches), gap(gap), end(end),
      nodesIn(size_t(orbits.nodeOrbits), 0), arcsIn(size_t(orbits.arcOrbits), 0),
      nodeOf(nodesIn.size(), -1), arcOf(arcsIn.size(), -1), broadcast(fabric, false),
      reduce(fabric, true) {
  for (const Arc &arc : fabric.arcs)
    largest = std::max(largest, double(arc.capacity));
  for (int32_t node = fabric.nodes; node-- > 0;) {
    size_t orbit = size_t(orbits.ofNode[size_t(node)]);
    ++nodesIn[orbit];
    nodeOf[orbit] = node;
  }
  for (size_t i = fabric.arcs.size(); i-- > 0;) {
    ++arcsIn[size_t(orbits.ofArc[i])];
    arcOf[size_t(orbits.ofArc[i])] = int32_t(i);
  }
  for (int32_t node : nodeOf) {
    bool terminal = switches == Switches::Terminal;
    if (fabric.isRank(node) || (terminal && copies(node)))
      broadcastTo.push_back(node);
    if (fabric.isRank(node) || (terminal && combines(node)))
      reduceFrom.push_back(node);
  }
  if (!findMirror())
    mirror.clear();
  addColumns();
  addBalance();
  center = {std::vector<double>(size_t(fabric.nodes), 0),
            std::vector<double>(fabric.arcs.size(), 0), std::vector<double>(fabric.arcs.size(), 0)};
}

bool TreePairs::findMirror() {
  for (int32_t node = 0; node < fabric.nodes; ++node)
    if (copies(node) != combines(node))
      return false;
  mirror.assign(arcsIn.size(), -1);
  for (size_t i = 0; i < fabric.arcs.size(); ++i) {
    const Arc &arc = fabric.arcs[i];
    int32_t back = fabric.find(arc.dst, arc.src);
    if (back < 0 || fabric.arcs[size_t(back)].capacity != arc.capacity)
      return false;
    mirror[size_t(orbits.ofArc[i])] = orbits.ofArc[size_t(back)];
  }
  return true;
}

void TreePairs::addColumns() {
  total = lp.addColumn(1);
  std::vector<Lp::Term> sum{{total, 1}};
  for (size_t orbit = 0; orbit < nodesIn.size(); ++orbit) {
    int32_t node = nodeOf[orbit];
    bool root = fabric.isRank(node) || (copies(node) && combines(node));
    rootColumn.push_back(root ? lp.addColumn(0) : -1);
    if (root)
      sum.push_back({rootColumn.back(), -double(nodesIn[orbit])});
  }
  lp.addRow(sum, 0, 0);
  a.resize(arcsIn.size());
  b.resize(arcsIn.size());
  for (size_t orbit = 0; orbit < arcsIn.size(); ++orbit) {
    const Arc &arc = fabric.arcs[size_t(arcOf[orbit])];
    double capacity = double(arc.capacity) / largest;
    // Where nothing is balanced all of the capacity may be used: one column for both shares.
    bool whole = unbalanced(arc.src) && unbalanced(arc.dst);
    Share &up = mirror.empty() ? b[orbit] : a[size_t(mirror[orbit])];
    if (&up == &a[orbit]) {
      up = {capacity / 2, 0, -1};
      if (!whole)
        up = {0, 1, lp.addColumn(0, 0, capacity / 2)};
    } else if (!a[orbit].set()) {
      a[orbit] = {0, 1, lp.addColumn(0, 0, capacity)};
      up = {capacity, -1, a[orbit].column};
      if (!whole) {
        up = {0, 1, lp.addColumn(0)};
        lp.addRow(std::vector<Lp::Term>{{a[orbit].column, 1}, {up.column, 1}}, -Lp::infinity,
                  capacity);
      }
    }
  }
  if (!mirror.empty())
    for (size_t orbit = 0; orbit < arcsIn.size(); ++orbit)
      b[orbit] = a[size_t(mirror[orbit])];
}

void TreePairs::findChanges() {
  changes.resize(nodesIn.size());
  for (size_t i = 0; i < fabric.arcs.size(); ++i)
    for (bool enters : {true, false}) {
      int32_t node = enters ? fabric.arcs[i].dst : fabric.arcs[i].src;
      size_t orbit = size_t(orbits.ofNode[size_t(node)]);
      if (!fabric.isRank(node) && nodeOf[orbit] == node)
        changes[orbit].push_back({orbits.ofArc[i], enters ? 1.0 : -1.0});
    }
  for (auto &change : changes)
    std::sort(change.begin(), change.end());
}

std::vector<Lp::Term> TreePairs::balance(size_t orbit, const std::vector<Share> &shares) const {
  // Arcs at a switch that is balanced have columns of their own, without a constant.
  std::vector<Lp::Term> terms;
  for (auto [kind, times] : changes[orbit])
    terms.push_back({shares[size_t(kind)].column, times});
  return joined(std::move(terms));
}

void TreePairs::addBalance() {
  findChanges();
  broadcastBalance.assign(nodesIn.size(), -1);
  reduceBalance.assign(nodesIn.size(), -1);
  for (size_t orbit = 0; orbit < nodesIn.size(); ++orbit) {
    if (fabric.isRank(nodeOf[orbit]))
      continue;
    if (!copies(nodeOf[orbit]))
      broadcastBalance[orbit] = lp.addRow(balance(orbit, a), 0, 0);
    if (mirror.empty() && !combines(nodeOf[orbit]))
      reduceBalance[orbit] = lp.addRow(balance(orbit, b), 0, 0);
  }
}

void TreePairs::addCut(PricedCut cut) {
  std::vector<Lp::Term> terms;
  std::vector<bool> member(size_t(fabric.nodes), false);
  for (int32_t node : cut.nodes) {
    member[size_t(node)] = true;
    if (int32_t column = rootColumn[size_t(orbits.ofNode[size_t(node)])]; column >= 0)
      terms.push_back({column, cut.complement ? -1.0 : 1.0});
  }
  if (cut.complement)
    terms.push_back({total, 1});
  double constant = 0;
  for (size_t i = 0; i < fabric.arcs.size(); ++i) {
    bool src = member[size_t(fabric.arcs[i].src)], dst = member[size_t(fabric.arcs[i].dst)];
    if (src == dst || src != (cut.complement == cut.reduce))
      continue;
    const Share &share = (cut.reduce ? b : a)[size_t(orbits.ofArc[i])];
    constant += share.constant;
    if (share.column >= 0)
      terms.push_back({share.column, -share.sign});
  }
  cutRow.push_back(lp.addRow(joined(std::move(terms)), -Lp::infinity, constant));
  cuts.push_back(std::move(cut));
}

TreeRates TreePairs::solution() const {
  TreeRates rates = center;
  auto get = [&](int32_t column) { return std::max(0.0, lp.value(column)); };
  auto of = [&](const Share &share) {
    return std::max(0.0, share.constant + (share.column < 0 ? 0 : share.sign * get(share.column)));
  };
  for (size_t node = 0; node < rates.root.size(); ++node) {
    int32_t column = rootColumn[size_t(orbits.ofNode[node])];
    rates.root[node] = column < 0 ? 0 : get(column);
  }
  for (size_t i = 0; i < fabric.arcs.size(); ++i) {
    size_t orbit = size_t(orbits.ofArc[i]);
    rates.broadcast[i] = of(a[orbit]);
    rates.reduce[i] = of(b[orbit]);
  }
  return rates;
}

} // namespace ccl::model
