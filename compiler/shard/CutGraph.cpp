// Writes the graph of a rank, operation by operation. Relies on a plan for the same module.
#include "compiler/shard/CutGraph.h"

#include "compiler/graph/TnRare.h"
#include "compiler/graph/TnShard.h"
#include "compiler/shard/Sums.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Verifier.h"
#include "support/text/Text.h"

using namespace mlir;

namespace tenon::shard {
namespace {

class Writer {
public:
  Writer(ModuleOp source, const Graph &theGraph, const Plan &thePlan)
      : module(source), graph(theGraph), plan(thePlan), builder(source.getContext()) {}

  Result<OwningOpRef<ModuleOp>> run();

private:
  func::FuncOp makeFunction();
  void write(Operation *op);
  /// A product in parts: what this rank has of the sum, or all of it.
  void writeSum(tn::MatmulOp op, const Strategy &strategy, Value a, Value b);
  Value wholeSum(Value made, Type element);
  void writeReturn(Operation *end);
  /// The value as the state says, on this rank.
  Value take(Value value, const State &state);
  Value whole(Value value);
  Value cutConstant(Value value, const State &state);
  Value rankSlice(Value value, const State &state);
  /// The value on rank 0, zeros on the others.
  Value alone(Value value);
  Value clone(Operation *op, ValueRange operands, ArrayRef<State> results);
  void makeLocal(Operation *op, Operation *made, const Strategy &strategy);
  Value tableRows(tn::GatherOp op, Value table, Value indices, int64_t rows);
  Value constantOf(Type element, ArrayRef<int64_t> numbers, bool isScalar = false);
  RankedTensorType localType(Value value, const State &state) {
    return *typeOfRank(value.getType(), state, plan.ranks);
  }

  /// What there is of a value so far.
  struct Forms {
    State state;
    Value made, whole;
  };

  ModuleOp module;
  const Graph &graph;
  const Plan &plan;
  OpBuilder builder;
  Location location = builder.getUnknownLoc();
  DenseMap<Value, Forms> forms;
  DenseMap<Value, Value> constants;
};

func::FuncOp Writer::makeFunction() {
  func::FuncOp from = graph.function();
  func::FuncOp made =
      func::FuncOp::create(builder, from.getLoc(), from.getName(), from.getFunctionType());
  made->setAttrs(from->getAttrs());
  Block *block = builder.createBlock(&made.getBody());
  SmallVector<Type> types;
  for (BlockArgument argument : from.getArguments()) {
    State state = graph.isState(argument) ? plan.states.lookup(argument) : State();
    types.push_back(localType(argument, state));
    BlockArgument own = block->addArgument(types.back(), argument.getLoc());
    forms[argument] = {state, own, state.isReplicated() ? own : BlockArgument()};
  }
  made.setFunctionType(builder.getFunctionType(types, from.getResultTypes()));
  return made;
}

Value Writer::constantOf(Type element, ArrayRef<int64_t> numbers, bool isScalar) {
  SmallVector<Attribute> values;
  for (int64_t number : numbers) {
    values.push_back(isa<FloatType>(element)
                         ? Attribute(builder.getFloatAttr(element, static_cast<double>(number)))
                         : Attribute(builder.getIntegerAttr(element, number)));
  }
  SmallVector<int64_t> dims;
  if (!isScalar) {
    dims.push_back(static_cast<int64_t>(numbers.size()));
  }
  RankedTensorType type = RankedTensorType::get(dims, element);
  return tn::ConstantOp::create(builder, location, type, DenseElementsAttr::get(type, values));
}

Value Writer::rankSlice(Value value, const State &state) {
  SmallVector<int64_t> sizes, copies;
  for (const Piece &piece : state.cut.pieces) {
    sizes.push_back(piece.size);
    copies.push_back(piece.copies);
  }
  return tn::RankSliceOp::create(builder, location, localType(value, state), value, plan.ranks,
                                 state.cut.dim, state.cut.repeat, sizes, copies,
                                 /*part=*/IntegerAttr());
}

Value Writer::alone(Value value) {
  SmallVector<int64_t> first(plan.ranks, 0);
  first[0] = 1;
  Type element = cast<RankedTensorType>(value.getType()).getElementType();
  Value flags = constantOf(builder.getI1Type(), first);
  Value flag = rankSlice(flags, State::split(Cut::plain(0, plan.ranks)));
  flag = tn::ReshapeOp::create(builder, location, RankedTensorType::get({}, builder.getI1Type()),
                               flag);
  return tn::SelectOp::create(builder, location, flag, value, constantOf(element, 0, true));
}

/// A constant is cut as near to its weights as the operations between allow, so that a rank reads
/// its part of them alone.
Value Writer::cutConstant(Value value, const State &state) {
  if (!state.isSplit()) {
    Value all = constants.lookup(value);
    return state.isPartial() ? alone(all) : all;
  }
  OpResult result = cast<OpResult>(value);
  Operation *op = result.getOwner();
  SmallVector<State> operands(op->getNumOperands());
  bool isPassed = false;
  if (tn::ReshapeOp reshape = dyn_cast<tn::ReshapeOp>(op)) {
    std::optional<Cut> cut =
        cutThroughReshape(tn::getDims(reshape.getType()), tn::getDims(reshape.getX().getType()),
                          state.cut, plan.ranks);
    isPassed = cut && typeOfRank(reshape.getX().getType(), State::split(*cut), plan.ranks);
    operands[0] = isPassed ? State::split(*cut) : State();
  } else if (std::optional<FactorRule> rule = factorRuleOf(op); rule && op->getNumResults() == 1) {
    int64_t factor = rule->results[0][state.cut.dim];
    for (auto [own, dims] : llvm::zip_equal(operands, rule->operands)) {
      const int64_t *found = llvm::find(dims, factor);
      if (factor != FactorRule::kNone && found != dims.end()) {
        own = State::split(state.cut.along(found - dims.begin()));
        isPassed = true;
      }
    }
  }
  if (!isPassed) {
    return rankSlice(constants.lookup(value), state);
  }
  SmallVector<Value> parts;
  for (auto [operand, own] : llvm::zip_equal(op->getOperands(), operands)) {
    parts.push_back(cutConstant(operand, own));
  }
  return clone(op, parts, state);
}

Value Writer::clone(Operation *op, ValueRange operands, ArrayRef<State> results) {
  IRMapping mapping;
  mapping.map(op->getOperands(), operands);
  Operation *made = builder.clone(*op, mapping);
  for (auto [index, operand] : llvm::enumerate(operands)) {
    made->setOperand(index, operand); // one value may be taken in two ways
  }
  for (auto [result, from, state] :
       llvm::zip_equal(made->getResults(), op->getResults(), results)) {
    result.setType(localType(from, state));
  }
  return made->getResult(0);
}

Value Writer::whole(Value value) {
  Forms &own = forms[value];
  if (own.whole || own.state.isReplicated()) {
    own.whole = own.whole ? own.whole : own.made;
    return own.whole;
  }
  if (own.state.isPartial() && plan.sums.contains(value.getDefiningOp())) {
    own.whole = wholeSum(own.made, cast<RankedTensorType>(value.getType()).getElementType());
    return own.whole;
  }
  if (own.state.isPartial()) {
    own.whole = tn::AllReduceOp::create(builder, location, own.made, plan.ranks);
    return own.whole;
  }
  SmallVector<int64_t> sizes, copies;
  for (const Piece &piece : own.state.cut.pieces) {
    sizes.push_back(piece.size);
    copies.push_back(piece.copies);
  }
  own.whole = tn::AllGatherOp::create(builder, location, value.getType(), own.made, plan.ranks,
                                      own.state.cut.dim, own.state.cut.repeat, sizes, copies);
  return own.whole;
}

Value Writer::take(Value value, const State &state) {
  if (graph.isConstant(value)) {
    return cutConstant(value, state);
  }
  if (forms[value].state == state) {
    return forms[value].made;
  }
  Value all = whole(value);
  return state.isReplicated() ? all : state.isPartial() ? alone(all) : rankSlice(all, state);
}

/// Attributes that count what was cut.
void Writer::makeLocal(Operation *op, Operation *made, const Strategy &strategy) {
  const State &first = strategy.operands.empty() ? State() : strategy.operands.front();
  if (!first.isSplit()) {
    return;
  }
  int64_t dim = first.cut.dim;
  if (tn::SliceOp slice = dyn_cast<tn::SliceOp>(made)) {
    tn::SliceOp from = cast<tn::SliceOp>(op);
    std::optional<int64_t> start = tn::constantDim(from.getStarts().getResult(dim));
    if (!start || *start == 0) {
      return;
    }
    // What a rank has of the pieces before the first that is taken.
    int64_t begin = 0, local = 0;
    for (int64_t i = 0; i < first.cut.repeat; ++i) {
      for (const Piece &piece : first.cut.pieces) {
        local += begin < *start ? piece.size / (plan.ranks / piece.copies) : 0;
        begin += piece.size;
      }
    }
    SmallVector<AffineExpr> starts(from.getStarts().getResults());
    starts[dim] = builder.getAffineConstantExpr(local);
    slice.setStarts(tn::symbolMap(starts, builder.getContext()));
  } else if (tn::ConvOp conv = dyn_cast<tn::ConvOp>(made);
             conv && conv.getGroups() > 1 && dim > 0) {
    conv.setGroups(conv.getGroups() / plan.ranks);
  } else if (tn::GroupNormOp norm = dyn_cast<tn::GroupNormOp>(made); norm && dim > 0) {
    norm.setGroups(norm.getGroups() / plan.ranks);
  }
}

/// Rows of a table of which this rank has some: zeros for those of other ranks.
Value Writer::tableRows(tn::GatherOp op, Value table, Value indices, int64_t rows) {
  Type element = cast<RankedTensorType>(indices.getType()).getElementType();
  SmallVector<int64_t> firsts;
  for (int64_t rank = 0; rank < plan.ranks; ++rank) {
    firsts.push_back(rank * rows);
  }
  Value zero = constantOf(element, 0, true);
  Value end = constantOf(element, rows * plan.ranks, true);
  Value isNegative = tn::CompareOp::create(builder, location, indices, zero, tn::Predicate::lt);
  Value fromEnd = tn::AddOp::create(builder, location, indices, end);
  Value row = tn::SelectOp::create(builder, location, isNegative, fromEnd, indices);
  Value first = rankSlice(constantOf(element, firsts), State::split(Cut::plain(0, plan.ranks)));
  Value own = tn::SubOp::create(builder, location, row, first);
  Value isBehind = tn::CompareOp::create(builder, location, own, zero, tn::Predicate::ge);
  Value isBefore = tn::CompareOp::create(builder, location, own, constantOf(element, rows, true),
                                         tn::Predicate::lt);
  Value isOwn = tn::AndOp::create(builder, location, isBehind, isBefore);
  Value safe = tn::SelectOp::create(builder, location, isOwn, own, zero);
  Value y = tn::GatherOp::create(builder, location, table, safe, op.getAxis());
  // Its dims stand where those of the indices are in the result.
  tn::Dims dims(op.getType().getRank(), builder.getAffineConstantExpr(1));
  for (auto [index, dim] : llvm::enumerate(tn::getDims(indices.getType()))) {
    dims[op.getAxis() + index] = dim;
  }
  Value mask =
      tn::ReshapeOp::create(builder, location, tn::makeTensor(dims, builder.getI1Type()), isOwn);
  Type real = cast<RankedTensorType>(y.getType()).getElementType();
  return tn::SelectOp::create(builder, location, mask, y, constantOf(real, 0, true));
}

void Writer::writeSum(tn::MatmulOp op, const Strategy &strategy, Value a, Value b) {
  bool isOfRanks = strategy.results[0].isPartial();
  int64_t parts = isOfRanks ? kSumParts / plan.ranks : kSumParts;
  int64_t depth = op.getTransposeB() ? 1 : 0;
  int64_t last = cast<RankedTensorType>(a.getType()).getRank() - 1;
  SmallVector<Value> values;
  for (int64_t part = 0; part < parts; ++part) {
    IRMapping mapping;
    Operation *made = builder.clone(*op, mapping);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(made);
    bool isOne = parts == 1;
    made->setOperand(0, isOne ? a : partOf(builder, location, a, last, part, parts));
    made->setOperand(1, isOne ? b : partOfConstant(builder, location, b, depth, part, parts));
    made->getResult(0).setType(localType(op.getY(), strategy.results[0]));
    values.push_back(made->getResult(0));
  }
  Value sum = parts == 1 ? values[0] : sumOf(builder, location, values);
  Type element = op.getType().getElementType();
  forms[op.getY()] = {strategy.results[0],
                      isOfRanks ? sum : castTo(builder, location, sum, element), Value()};
}

/// Of four ranks, each has one part, in the type of the result: all get them all.
Value Writer::wholeSum(Value made, Type element) {
  if (plan.ranks < kSumParts) {
    Value sum = tn::AllReduceOp::create(builder, location, made, plan.ranks);
    return castTo(builder, location, sum, element);
  }
  RankedTensorType type = cast<RankedTensorType>(made.getType());
  tn::Dims dims = tn::getDims(type);
  dims.insert(dims.begin(), builder.getAffineConstantExpr(1));
  Value one =
      tn::ReshapeOp::create(builder, location, tn::makeTensor(dims, type.getElementType()), made);
  dims[0] = builder.getAffineConstantExpr(plan.ranks);
  Value all = tn::AllGatherOp::create(builder, location,
                                      tn::makeTensor(dims, type.getElementType()), one, plan.ranks,
                                      0, 1, ArrayRef<int64_t>(plan.ranks), ArrayRef<int64_t>(1));
  SmallVector<Value> parts;
  for (int64_t part = 0; part < plan.ranks; ++part) {
    Value own = partOf(builder, location, all, 0, part, plan.ranks);
    parts.push_back(tn::ReshapeOp::create(builder, location, type, own));
  }
  return castTo(builder, location, sumOf(builder, location, parts), element);
}

void Writer::write(Operation *op) {
  const Strategy &strategy = plan.strategies.find(op)->second;
  location = op->getLoc();
  SmallVector<Value> operands;
  for (auto [operand, state] : llvm::zip_equal(op->getOperands(), strategy.operands)) {
    operands.push_back(take(operand, state));
  }
  tn::GatherOp gather = dyn_cast<tn::GatherOp>(op);
  bool isTable = gather && strategy.operands[0].isSplit() &&
                 strategy.operands[0].cut.dim == static_cast<int64_t>(gather.getAxis());
  if (isTable) {
    int64_t rows = *strategy.operands[0].cut.sizeOfRank(plan.ranks);
    forms[op->getResult(0)] = {strategy.results[0],
                               tableRows(gather, operands[0], operands[1], rows), Value()};
    return;
  }
  if (plan.sums.contains(op)) {
    writeSum(cast<tn::MatmulOp>(op), strategy, operands[0], operands[1]);
    return;
  }
  if (op->getNumResults() == 0) {
    clone(op, operands, {});
    return;
  }
  Operation *made = clone(op, operands, strategy.results).getDefiningOp();
  makeLocal(op, made, strategy);
  for (auto [from, result, state] :
       llvm::zip_equal(op->getResults(), made->getResults(), strategy.results)) {
    forms[from] = {state, result, Value()};
  }
}

void Writer::writeReturn(Operation *end) {
  SmallVector<Value> results;
  location = end->getLoc();
  for (OpOperand &operand : end->getOpOperands()) {
    State state;
    for (BlockArgument argument : graph.function().getArguments()) {
      if (graph.stateResult(argument) == operand.getOperandNumber()) {
        state = plan.states.lookup(argument);
      }
    }
    results.push_back(take(operand.get(), state));
  }
  func::ReturnOp::create(builder, location, results);
}

Result<OwningOpRef<ModuleOp>> Writer::run() {
  OwningOpRef<ModuleOp> made = ModuleOp::create(module.getLoc());
  (*made)->setAttrs(module->getAttrs());
  builder.setInsertionPointToEnd(made->getBody());
  func::FuncOp function = makeFunction();
  IRMapping mapping;
  for (Operation &op : graph.function().getBody().front().without_terminator()) {
    bool isConstantOp = op.getNumResults() > 0 && graph.isConstant(op.getResult(0));
    if (!isConstantOp) {
      write(&op);
      continue;
    }
    Operation *copy = builder.clone(op, mapping);
    for (auto [from, to] : llvm::zip_equal(op.getResults(), copy->getResults())) {
      constants[from] = to;
    }
  }
  writeReturn(graph.function().getBody().front().getTerminator());
  function.setFunctionType(builder.getFunctionType(
      function.getArgumentTypes(), function.getBody().front().getTerminator()->getOperandTypes()));
  // What nothing reads any more.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.getBody().front()))) {
    if (op.use_empty() && isPure(&op) && !op.hasTrait<OpTrait::IsTerminator>()) {
      op.erase();
    }
  }
  std::string fault;
  ScopedDiagnosticHandler handler(builder.getContext(), [&](Diagnostic &diagnostic) {
    fault = diagnostic.str();
    return success();
  });
  if (failed(verify(*made))) {
    return Status::error(ErrorId::InternalError, strCat("the cut graph does not verify: ", fault));
  }
  return made;
}

} // namespace

Result<OwningOpRef<ModuleOp>> cutGraph(ModuleOp module, const Graph &graph, const Plan &plan) {
  return Writer(module, graph, plan).run();
}

} // namespace tenon::shard
