// What has no padded places may gain them: a table of positions that is cut to the length.
#include "compiler/graph/PaddingMovement.h"

using namespace mlir;

namespace tenon::tn {

const PlaceAxis *Places::at(int64_t axis) const {
  const PlaceAxis *found =
      llvm::find_if(axes, [&](const PlaceAxis &each) { return each.axis == axis; });
  return found == axes.end() ? nullptr : found;
}

bool KnownPlaces::fits(const Places &found, Type type) const {
  return llvm::all_of(llvm::enumerate(getDims(type)), [&](auto entry) {
    const PlaceAxis *axis = found.at(static_cast<int64_t>(entry.index()));
    return axis ? isMultiple(entry.value()) : !names(entry.value());
  });
}

bool KnownPlaces::isPlain(const PlaceAxis *axis, Type type) const {
  AffineExpr group = axis ? groupOf(getDims(type)[axis->axis]) : AffineExpr();
  return group && constantDim(group) == 1;
}

/// What an operation that reads elements in other ways leaves known of their axes.
Places forgotten(Places x) {
  for (PlaceAxis &axis : x.axes) {
    axis.content = {};
  }
  x.number.reset();
  x.indexOf.reset();
  return x;
}

/// As many elements of dims before an axis of the result as before one of x, with the length, keep
/// its places.
Places placesMoved(const KnownPlaces &known, ReshapeOp reshape) {
  const Places &x = known.of(reshape.getX());
  MLIRContext *context = reshape.getContext();
  Dims from = getDims(reshape.getX().getType()), to = getDims(reshape.getType());
  Places result = x;
  result.axes.clear();
  result.indexOf.reset();
  for (const PlaceAxis &axis : x.axes) {
    AffineExpr behind = elementCount(context, ArrayRef(from).drop_front(axis.axis + 1));
    AffineExpr wanted = behind ? multiplyDims(axis.inner, behind) : AffineExpr();
    std::optional<PlaceAxis> found;
    for (int64_t i = 0; wanted && !found && i < static_cast<int64_t>(to.size()); ++i) {
      AffineExpr group = known.groupOf(to[i]);
      AffineExpr own = elementCount(context, ArrayRef(to).drop_front(i + 1));
      std::optional<int64_t> total = constantDim(wanted), part = constantDim(own);
      std::optional<int64_t> groups = group ? constantDim(group) : std::nullopt;
      if (group && sameDim(own, wanted)) {
        found = PlaceAxis{i, getAffineConstantExpr(1, context), axis.content};
      } else if (groups && total && part && *part > 0 && *total % *part == 0 &&
                 *groups % (*total / *part) == 0) {
        found = PlaceAxis{i, getAffineConstantExpr(*total / *part, context), axis.content};
      }
    }
    if (!found || result.at(found->axis)) {
      return Places::mixed(reshape, "cuts padded places into others");
    }
    if (x.indexOf == axis.axis && known.isPlain(&axis, reshape.getX().getType()) &&
        known.isPlain(&*found, reshape.getType())) {
      result.indexOf = found->axis;
    }
    result.axes.push_back(*found);
  }
  return result;
}

Places placesMoved(const KnownPlaces &known, TransposeOp transpose) {
  Places result = known.of(transpose.getX());
  auto moved = [&](int64_t axis) {
    return llvm::find(transpose.getPermutation(), axis) - transpose.getPermutation().begin();
  };
  for (PlaceAxis &axis : result.axes) {
    axis.axis = moved(axis.axis);
  }
  if (result.indexOf) {
    result.indexOf = moved(*result.indexOf);
  }
  return result;
}

Places placesMoved(const KnownPlaces &known, BroadcastOp broadcast) {
  Places result = known.of(broadcast.getX());
  int64_t shift = rank(broadcast.getY()) - rank(broadcast.getX());
  for (PlaceAxis &axis : result.axes) {
    axis.axis += shift;
  }
  if (result.indexOf) {
    *result.indexOf += shift;
  }
  for (auto [i, dim] : llvm::enumerate(getDims(broadcast.getType()))) {
    if (known.names(dim) && !result.at(i)) {
      result.axes.push_back({static_cast<int64_t>(i), getAffineConstantExpr(1, dim.getContext()),
                             Content::of(result.number)});
    }
  }
  return result;
}

Places placesMoved(const KnownPlaces &known, SliceOp slice) {
  Places result = forgotten(known.of(slice.getX()));
  Dims from = getDims(slice.getX().getType()), to = getDims(slice.getType());
  SmallVector<PlaceAxis, 2> axes;
  for (int64_t i = 0; i < rank(slice.getX()); ++i) {
    AffineExpr start = slice.getStarts().getResult(i);
    int64_t step = slice.getSteps()[i];
    const PlaceAxis *placed = known.of(slice.getX()).at(i);
    std::optional<int64_t> count = constantDim(to[i]);
    if (known.names(start)) {
      return Places::mixed(slice, "takes places from the end on");
    }
    if (placed && sameDim(from[i], to[i]) && constantDim(start) == 0 && step == 1) {
      axes.push_back(*placed);
    } else if (placed) {
      std::optional<int64_t> at = constantDim(start);
      bool isWithin = at && count && step > 0 && known.isPlain(placed, slice.getX().getType()) &&
                      *at + (*count - 1) * step < known.least;
      if (!isWithin) {
        return Places::mixed(slice, "takes some of the places");
      }
    } else if (known.names(to[i])) {
      axes.push_back({i, getAffineConstantExpr(1, slice.getContext()), {}});
      if (step < 1) {
        return Places::mixed(slice, "takes places from the end on");
      }
    }
  }
  result.axes = axes;
  return result;
}

Places placesMoved(const KnownPlaces &known, GatherOp gather) {
  const Places &x = known.of(gather.getX()), &indices = known.of(gather.getIndices());
  int64_t axis = gather.getAxis(), added = rank(gather.getIndices()) - 1;
  if (x.isCommon()) {
    Places result = forgotten(indices);
    for (PlaceAxis &each : result.axes) {
      each.axis += axis;
    }
    return result;
  }
  bool isPicked = indices.number && *indices.number >= 0 && *indices.number < known.least &&
                  known.isPlain(x.at(axis), gather.getX().getType());
  if (!indices.isCommon() || (x.at(axis) && !isPicked)) {
    return Places::mixed(gather, "picks places by number");
  }
  Places result = forgotten(x);
  llvm::erase_if(result.axes, [&](const PlaceAxis &each) { return each.axis == axis; });
  for (PlaceAxis &each : result.axes) {
    each.axis += each.axis > axis ? added : 0;
  }
  return result;
}

Places placesMoved(const KnownPlaces &known, ConcatOp concat) {
  Places result = forgotten(known.of(concat.getXs().front()));
  for (Value operand : concat.getXs()) {
    const Places &x = known.of(operand);
    result.isFinite &= x.isFinite;
    bool isSame = x.axes.size() == result.axes.size();
    for (const PlaceAxis &axis : x.axes) {
      const PlaceAxis *other = result.at(axis.axis);
      isSame &= other && sameDim(other->inner, axis.inner) &&
                axis.axis != static_cast<int64_t>(concat.getAxis());
    }
    if (!isSame) {
      return Places::mixed(concat, "puts places behind padded ones");
    }
  }
  return result;
}

Places placesMoved(const KnownPlaces &known, TriluOp triangle) {
  Places result = known.of(triangle.getX());
  result.number.reset();
  result.indexOf.reset();
  int64_t columns = rank(triangle.getX()) - 1, diagonal = triangle.getDiagonal();
  for (PlaceAxis &axis : result.axes) {
    if (axis.axis < columns - 1) {
      continue;
    }
    // Column minus row is at least 1 where the column is behind the length, at most -1 where the
    // row is.
    bool isRight = axis.axis == columns;
    bool isKept = triangle.getUpper() ? (isRight && diagonal <= 1) : (!isRight && diagonal >= -1);
    bool isCleared = triangle.getUpper() ? (!isRight && diagonal >= 0) : (isRight && diagonal <= 0);
    axis.content = isCleared ? Content::of(0) : isKept ? axis.content : Content();
  }
  return result;
}

} // namespace tenon::tn
