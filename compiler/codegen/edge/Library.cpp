// Calls and constants beside the kernels' bitcode, then LLVM's own pipeline, so that code of a
// library is what clang makes of the folder. Stack sizes are those that the backend notes for each
// function. One file: what makes a module and what is then
// read of its object are two ends of one value.
#include "compiler/codegen/edge/Library.h"

#include "compiler/codegen/edge/Cores.h"
#include "support/text/Text.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ArchiveWriter.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/LEB128.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"

#include <algorithm>
#include <map>

namespace tenon::codegen::edge {
namespace {

Status failed(const Core &core, const std::string &what) {
  return Status::error(ErrorId::InternalError, strCat("a library for ", core.name, ": ", what));
}

std::unique_ptr<llvm::TargetMachine> machineOf(const Core &core) {
  static const bool isRegistered = [] {
    LLVMInitializeARMTargetInfo();
    LLVMInitializeARMTarget();
    LLVMInitializeARMTargetMC();
    LLVMInitializeARMAsmPrinter();
    LLVMInitializeARMAsmParser();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    LLVMInitializeRISCVTargetInfo();
    LLVMInitializeRISCVTarget();
    LLVMInitializeRISCVTargetMC();
    LLVMInitializeRISCVAsmPrinter();
    return true;
  }();
  (void)isRegistered;
  llvm::Triple triple{llvm::StringRef(core.triple)};
  llvm::TargetOptions options;
  options.FunctionSections = options.DataSections = true; // what nothing calls, a linker drops
  options.EmitStackSizeSection = true;
  options.MCOptions.ABIName = std::string(core.abi);
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  llvm::CodeModel::Model model =
      triple.isRISCV() ? llvm::CodeModel::Medium : llvm::CodeModel::Small;
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, core.cpu, core.features, options, llvm::Reloc::Static,
                                  model, llvm::CodeGenOptLevel::Default));
}

/// What the C files of a folder say, as functions and constants of a module that has the kernels.
class Builder {
public:
  Builder(llvm::Module &kernels, const Program &printed, const std::string &modelName)
      : module(kernels), context(kernels.getContext()), program(printed), name(modelName),
        steps(stepsOf(printed)), pointer(llvm::PointerType::getUnqual(context)),
        i8(llvm::Type::getInt8Ty(context)), i16(llvm::Type::getInt16Ty(context)),
        i32(llvm::Type::getInt32Ty(context)), none(llvm::Type::getVoidTy(context)) {}

  void build() {
    std::vector<uint16_t> layers, rows;
    for (const Step &step : steps) {
      layers.push_back(static_cast<uint16_t>(step.call));
      rows.push_back(static_cast<uint16_t>(step.row));
    }
    stepLayers = constant(layers);
    stepRows = constant(rows);
    addPlaces();
    llvm::Function *step = addStep();
    addRun(step);
    addSelfTest(step);
    addLayerName();
  }

private:
  llvm::Function *newFunction(std::string_view suffix, llvm::Type *result,
                              llvm::ArrayRef<llvm::Type *> parameters) {
    llvm::Function *made = llvm::Function::Create(
        llvm::FunctionType::get(result, parameters, false), llvm::GlobalValue::ExternalLinkage,
        name + "_" + std::string(suffix), module);
    // As clang said for the kernels: which core it is.
    made->copyAttributesFrom(module.getFunction("tn_conv"));
    llvm::AttributeList attributes = made->getAttributes();
    made->setAttributes(
        llvm::AttributeList::get(context, llvm::AttributeList::FunctionIndex,
                                 llvm::AttrBuilder(context, attributes.getFnAttrs())));
    made->removeFnAttr(llvm::Attribute::NoInline);
    return made;
  }

  llvm::GlobalVariable *constant(llvm::Type *element, llvm::StringRef bytes,
                                 uint64_t elementBytes) {
    llvm::Constant *values =
        llvm::ConstantDataArray::getRaw(bytes, bytes.size() / elementBytes, element);
    llvm::GlobalVariable *made = new llvm::GlobalVariable(
        module, values->getType(), true, llvm::GlobalValue::PrivateLinkage, values, name + "_data");
    made->setAlignment(llvm::Align(elementBytes));
    return made;
  }
  template <typename T> llvm::GlobalVariable *constant(const std::vector<T> &values) {
    return constant(sizeof(T) == sizeof(int32_t) ? i32 : i16,
                    {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)},
                    sizeof(T));
  }

  /// The places of all tensors' rows behind each other.
  void addPlaces() {
    std::vector<uint16_t> all;
    for (const Tensor &tensor : program.tensors) {
      firstPlaces.push_back(tensor.places.empty() ? -1 : static_cast<int32_t>(all.size()));
      all.insert(all.end(), tensor.places.begin(), tensor.places.end());
    }
    if (!all.empty()) {
      places = constant(all);
    }
  }

  llvm::Value *placesOf(llvm::IRBuilder<> &builder, int tensor) {
    int32_t first = firstPlaces[static_cast<size_t>(tensor)];
    return first < 0 ? static_cast<llvm::Value *>(llvm::ConstantPointerNull::get(pointer))
                     : builder.CreateConstInBoundsGEP1_64(i16, places, first);
  }

  /// Where the step's row lies.
  llvm::Value *rowOf(llvm::IRBuilder<> &builder, int tensor, llvm::Value *arena, llvm::Value *row) {
    const Tensor &whole = program.tensors[static_cast<size_t>(tensor)];
    llvm::Value *offset = nullptr;
    if (!whole.places.empty()) {
      llvm::Value *place = builder.CreateInBoundsGEP(i16, placesOf(builder, tensor), row);
      offset = builder.CreateMul(builder.CreateZExt(builder.CreateLoad(i16, place), i32),
                                 builder.getInt32(kPlaceUnit));
    } else {
      uint32_t bytes = static_cast<uint32_t>(whole.rows == 1 ? 0 : whole.bytes / whole.rows);
      offset = builder.CreateAdd(builder.CreateMul(row, builder.getInt32(bytes)),
                                 builder.getInt32(static_cast<uint32_t>(whole.offset)));
    }
    return builder.CreateInBoundsGEP(i8, arena, offset);
  }

  void addCall(llvm::IRBuilder<> &builder, const Call &call, llvm::Value *arena, llvm::Value *row) {
    const KernelInfo &info = infoOf(call.kernel);
    auto has = [&](std::string_view field) { return std::ranges::find(info.fields, field); };
    bool isWindow = has("kernel_h") != info.fields.end(), isRow = call.form == RowForm::Window;
    llvm::SmallVector<llvm::Value *> arguments = {constant(call.shape)};
    auto at = [&](int64_t offset) { return builder.CreateConstInBoundsGEP1_64(i8, arena, offset); };
    if (isWindow) {
      int32_t rows = call.shape[static_cast<size_t>(has("out_h") - info.fields.begin())];
      arguments.push_back(isRow ? row : builder.getInt32(0));
      arguments.push_back(isRow ? builder.CreateAdd(row, builder.getInt32(1))
                                : builder.getInt32(static_cast<uint32_t>(rows)));
    } else if (call.form == RowForm::Sum) {
      arguments.push_back(row);
    }
    for (size_t i = 0; i < call.reads.size(); ++i) {
      arguments.push_back(readsRow(program, call, i) ? rowOf(builder, call.reads[i], arena, row)
                                                     : at(readOffset(program, call, i, 0)));
      if (isWindow) {
        arguments.push_back(isRow ? placesOf(builder, call.reads[i])
                                  : llvm::ConstantPointerNull::get(pointer));
      }
    }
    for (const Constant &each : call.constants) {
      llvm::Type *element = builder.getIntNTy(static_cast<unsigned>(each.elementBytes * 8));
      arguments.push_back(constant(element, {each.bytes.data(), each.bytes.size()},
                                   static_cast<uint64_t>(each.elementBytes)));
    }
    if (call.form == RowForm::Sum) {
      arguments.push_back(at(program.tensors[static_cast<size_t>(call.sums)].offset));
    }
    arguments.push_back(isRow || call.form == RowForm::Each
                            ? rowOf(builder, call.writes, arena, row)
                            : at(program.tensors[static_cast<size_t>(call.writes)].offset));
    builder.CreateCall(module.getFunction("tn_" + std::string(info.name)), arguments);
  }

  /// Without rows a step is a layer, and users may call it.
  llvm::Function *addStep() {
    bool isByRows = !program.steps.empty();
    llvm::Function *made = newFunction(isByRows ? "step" : "layer", none, {pointer, i32});
    if (isByRows) {
      made->setLinkage(llvm::GlobalValue::InternalLinkage);
    }
    llvm::IRBuilder<> builder(llvm::BasicBlock::Create(context, "", made));
    auto of = [&](llvm::GlobalVariable *table) {
      llvm::Value *entry = builder.CreateInBoundsGEP(i16, table, made->getArg(1));
      return builder.CreateZExt(builder.CreateLoad(i16, entry), i32);
    };
    llvm::Value *layer = isByRows ? of(stepLayers) : made->getArg(1);
    llvm::Value *row = isByRows ? of(stepRows) : builder.getInt32(0);
    llvm::BasicBlock *end = llvm::BasicBlock::Create(context, "end", made);
    llvm::SwitchInst *which = builder.CreateSwitch(layer, end);
    for (size_t i = 0; i < program.calls.size(); ++i) {
      llvm::BasicBlock *block = llvm::BasicBlock::Create(context, "", made, end);
      which->addCase(builder.getInt32(static_cast<uint32_t>(i)), block);
      builder.SetInsertPoint(block);
      addCall(builder, program.calls[i], made->getArg(0), row);
      builder.CreateBr(end);
    }
    builder.SetInsertPoint(end);
    builder.CreateRetVoid();
    return made;
  }

  void addRun(llvm::Function *step) {
    llvm::Function *made = newFunction("run", none, {pointer});
    llvm::BasicBlock *before = llvm::BasicBlock::Create(context, "", made);
    llvm::BasicBlock *loop = llvm::BasicBlock::Create(context, "loop", made);
    llvm::BasicBlock *end = llvm::BasicBlock::Create(context, "end", made);
    llvm::IRBuilder<> builder(before);
    builder.CreateBr(loop);
    builder.SetInsertPoint(loop);
    llvm::PHINode *index = builder.CreatePHI(i32, 2);
    builder.CreateCall(step, {made->getArg(0), index});
    llvm::Value *next = builder.CreateAdd(index, builder.getInt32(1));
    index->addIncoming(builder.getInt32(0), before);
    index->addIncoming(next, loop);
    llvm::Value *isLast =
        builder.CreateICmpEQ(next, builder.getInt32(static_cast<uint32_t>(steps.size())));
    builder.CreateCondBr(isLast, end, loop);
    builder.SetInsertPoint(end);
    builder.CreateRetVoid();
  }

  void addSelfTest(llvm::Function *step) {
    std::vector<int32_t> rows, inputs;
    std::vector<LayerHash> hashes = layerHashes(program);
    for (size_t i = 0; i < program.calls.size(); ++i) {
      const Call &call = program.calls[i];
      int64_t first = call.form == RowForm::Sum
                          ? program.tensors[static_cast<size_t>(call.reads.front())].rows - 1
                          : 0;
      MadeRow made = madeRow(program, {static_cast<int>(i), static_cast<int>(first)});
      const Tensor &written = program.tensors[static_cast<size_t>(call.writes)];
      rows.insert(rows.end(),
                  {firstPlaces[static_cast<size_t>(call.writes)],
                   static_cast<int32_t>(written.offset), static_cast<int32_t>(made.bytes),
                   static_cast<int32_t>(first), static_cast<int32_t>(hashes[i].places),
                   static_cast<int32_t>(hashes[i].bytes)});
    }
    for (const Port &port : program.inputs) {
      const Tensor &tensor = program.tensors[static_cast<size_t>(port.tensor)];
      inputs.insert(inputs.end(),
                    {static_cast<int32_t>(tensor.offset), static_cast<int32_t>(tensor.bytes)});
    }
    int32_t layers = static_cast<int32_t>(program.calls.size());
    std::vector<int32_t> shape = {layers, static_cast<int32_t>(steps.size()),
                                  static_cast<int32_t>(program.inputs.size()),
                                  static_cast<int32_t>(kSelfTestSeed)};
    llvm::Function *made = newFunction("selftest", i32, {pointer, pointer});
    llvm::IRBuilder<> builder(llvm::BasicBlock::Create(context, "", made));
    llvm::Value *room =
        builder.CreateAlloca(llvm::ArrayType::get(i32, static_cast<uint64_t>(layers)), nullptr);
    llvm::Value *allPlaces =
        places ? static_cast<llvm::Value *>(places) : llvm::ConstantPointerNull::get(pointer);
    builder.CreateRet(
        builder.CreateCall(module.getFunction("tn_selftest"),
                           {constant(shape), constant(rows), constant(inputs), stepLayers, stepRows,
                            allPlaces, room, step, made->getArg(0), made->getArg(1)}));
  }

  void addLayerName() {
    llvm::Function *made = newFunction("layer_name", pointer, {i32});
    llvm::IRBuilder<> builder(llvm::BasicBlock::Create(context, "", made));
    llvm::SmallVector<llvm::Constant *> names;
    for (const Call &call : program.calls) {
      names.push_back(builder.CreateGlobalString(call.node, name + "_data"));
    }
    llvm::ArrayType *type = llvm::ArrayType::get(pointer, names.size());
    llvm::GlobalVariable *table =
        new llvm::GlobalVariable(module, type, true, llvm::GlobalValue::PrivateLinkage,
                                 llvm::ConstantArray::get(type, names), name + "_data");
    llvm::Value *entry =
        builder.CreateInBoundsGEP(type, table, {builder.getInt32(0), made->getArg(0)});
    builder.CreateRet(builder.CreateLoad(pointer, entry));
  }

  llvm::Module &module;
  llvm::LLVMContext &context;
  const Program &program;
  const std::string &name;
  const std::vector<Step> steps;
  llvm::PointerType *pointer;
  llvm::Type *i8, *i16, *i32, *none;
  llvm::GlobalVariable *stepLayers = nullptr, *stepRows = nullptr, *places = nullptr;
  std::vector<int32_t> firstPlaces; ///< of each tensor; -1 for none
};

void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::TargetLibraryInfoImpl library{machine.getTargetTriple()};
  library.disableAllFunctions(); // or loops become calls of memcpy
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
}

/// Bytes of stack by function, and the bytes of all code. Each function has a section of its own
/// and a note, which a relocation ties to that section: an address, then the size.
llvm::Expected<std::map<std::string, int64_t>> stackSizes(const llvm::object::ObjectFile &object,
                                                          int64_t &codeBytes) {
  std::map<llvm::object::SectionRef, int64_t> noted;
  for (const llvm::object::SectionRef &relocations : object.sections()) {
    llvm::Expected<llvm::object::section_iterator> notes = relocations.getRelocatedSection();
    if (!notes) {
      return notes.takeError();
    }
    llvm::Expected<llvm::StringRef> title =
        *notes == object.section_end() ? llvm::StringRef() : (*notes)->getName();
    if (!title || *title != ".stack_sizes") {
      llvm::consumeError(title.takeError());
      continue;
    }
    llvm::Expected<llvm::StringRef> content = (*notes)->getContents();
    if (!content) {
      return content.takeError();
    }
    for (const llvm::object::RelocationRef &at : relocations.relocations()) {
      llvm::Expected<llvm::object::section_iterator> function = at.getSymbol()->getSection();
      if (!function) {
        return function.takeError();
      }
      size_t size = at.getOffset() + object.getBytesInAddress();
      noted[**function] = static_cast<int64_t>(
          llvm::decodeULEB128(content->bytes_begin() + size, nullptr, content->bytes_end()));
    }
  }
  std::map<std::string, int64_t> sizes;
  for (const llvm::object::SymbolRef &symbol : object.symbols()) {
    llvm::Expected<llvm::object::SymbolRef::Type> type = symbol.getType();
    llvm::Expected<llvm::object::section_iterator> section = symbol.getSection();
    llvm::Expected<llvm::StringRef> name = symbol.getName();
    if (!type || !section || !name) {
      return llvm::createStringError("a symbol of its object cannot be read");
    }
    if (*type == llvm::object::SymbolRef::ST_Function && *section != object.section_end()) {
      codeBytes += static_cast<int64_t>((*section)->getSize());
      if (noted.find(**section) == noted.end()) {
        return llvm::createStringError("the stack of " + *name + " is not known");
      }
      sizes[name->str()] = noted[**section];
    }
  }
  return sizes;
}

/// From a function on down. Who calls whom is a tree without a circle.
int64_t deepest(const llvm::Function &function, const std::map<std::string, int64_t> &sizes) {
  int64_t below = 0;
  for (const llvm::Instruction &instruction : llvm::instructions(function)) {
    const auto *call = llvm::dyn_cast<llvm::CallBase>(&instruction);
    const llvm::Function *called = call ? call->getCalledFunction() : nullptr;
    if (called != nullptr && !called->isDeclaration()) {
      below = std::max(below, deepest(*called, sizes));
    }
  }
  return below + sizes.at(function.getName().str());
}

} // namespace

Result<Footprint> makeLibrary(const Program &program, const std::string &name, const Core &core) {
  llvm::LLVMContext context;
  std::span<const uint8_t> bitcode = bitcodeOf(core);
  llvm::MemoryBufferRef buffer({reinterpret_cast<const char *>(bitcode.data()), bitcode.size()},
                               "kernels");
  llvm::Expected<std::unique_ptr<llvm::Module>> parsed = llvm::parseBitcodeFile(buffer, context);
  if (!parsed) {
    return failed(core, llvm::toString(parsed.takeError()));
  }
  llvm::Module &module = **parsed;
  std::unique_ptr<llvm::TargetMachine> machine = machineOf(core);
  module.setDataLayout(machine->createDataLayout());
  module.getGlobalVariable("tn_all_kernels")->eraseFromParent();
  if (machine->getTargetTriple().isThumb()) {
    // No number is passed in a register of the floating-point unit: it links with both kinds.
    module.setModuleInlineAsm(".eabi_attribute 28, 3");
  }
  Builder(module, program, name).build();
  std::string problem;
  llvm::raw_string_ostream stream(problem);
  if (llvm::verifyModule(module, &stream)) {
    return failed(core, problem);
  }
  optimize(module, *machine);

  llvm::SmallString<0> object;
  llvm::raw_svector_ostream objectStream(object);
  llvm::legacy::PassManager backend;
  llvm::TargetLibraryInfoImpl none{machine->getTargetTriple()};
  none.disableAllFunctions();
  backend.add(new llvm::TargetLibraryInfoWrapperPass(none));
  if (machine->addPassesToEmitFile(backend, objectStream, nullptr,
                                   llvm::CodeGenFileType::ObjectFile)) {
    return failed(core, "the backend cannot emit an object");
  }
  backend.run(module);

  Footprint made;
  made.core = core.name;
  const std::string member = name + ".o";
  llvm::MemoryBufferRef objectBuffer(object.str(), member);
  llvm::Expected<std::unique_ptr<llvm::object::ObjectFile>> file =
      llvm::object::ObjectFile::createELFObjectFile(objectBuffer);
  if (!file) {
    return failed(core, llvm::toString(file.takeError()));
  }
  for (const llvm::object::SymbolRef &symbol : (*file)->symbols()) {
    llvm::Expected<uint32_t> flags = symbol.getFlags();
    llvm::Expected<llvm::StringRef> undefined = symbol.getName();
    if (flags && undefined && (*flags & llvm::object::SymbolRef::SF_Undefined) != 0 &&
        !undefined->empty()) {
      return failed(core, strCat("its code calls '", undefined->str(), "'"));
    }
  }
  llvm::Expected<std::map<std::string, int64_t>> sizes = stackSizes(**file, made.codeBytes);
  if (!sizes) {
    return failed(core, llvm::toString(sizes.takeError()));
  }
  made.stackBytes = deepest(*module.getFunction(name + "_run"), *sizes);
  llvm::NewArchiveMember entry(objectBuffer);
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> archive = llvm::writeArchiveToBuffer(
      entry, llvm::SymtabWritingMode::NormalSymtab, llvm::object::Archive::K_GNU,
      /*Deterministic=*/true, /*Thin=*/false);
  if (!archive) {
    return failed(core, llvm::toString(archive.takeError()));
  }
  made.archive = (*archive)->getBuffer().str();
  return made;
}

} // namespace tenon::codegen::edge
