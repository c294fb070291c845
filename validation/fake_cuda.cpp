// A device guard and hooks for CUDA that do nothing, for builds of PyTorch without CUDA.
//
// C++ code that takes a DeviceGuard asks the registry for one, autograd counts devices by it, and the accelerator's
// hooks tell autograd that CUDA is the device whose streams it has to order. Fake tensors need the answers, not a GPU.
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

using c10::Device, c10::DeviceIndex, c10::DeviceType, c10::EventFlag, c10::Stream;

struct NoGuard final : public c10::impl::DeviceGuardImplInterface {
  Device here() const { return Device(DeviceType::CUDA, 0); }
  Stream only() const { return Stream(Stream::DEFAULT, here()); }
  DeviceType type() const override { return DeviceType::CUDA; }
  Device exchangeDevice(Device) const override { return here(); }
  Device getDevice() const override { return here(); }
  void setDevice(Device) const override {}
  void uncheckedSetDevice(Device) const noexcept override {}
  Stream getStream(Device) const noexcept override { return only(); }
  Stream getNewStream(Device, int) const override { return only(); }
  Stream exchangeStream(Stream) const noexcept override { return only(); }
  DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const Stream&, const DeviceIndex, const EventFlag) const override {}
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const DeviceIndex) const noexcept override {}
  bool queryStream(const Stream&) const override { return true; }
  void synchronizeStream(const Stream&) const override {}
};

extern "C" void install_guard() {
  auto& slot = c10::impl::device_guard_impl_registry[static_cast<size_t>(DeviceType::CUDA)];
  if (slot.load() == nullptr) slot.store(new NoGuard());
}

namespace at {
struct NoHooks final : public CUDAHooksInterface {
  explicit NoHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasCUDART() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex current_device() const override { return 0; }
  DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(DeviceIndex) const override {}
  DeviceIndex exchangeDevice(DeviceIndex) const override { return 0; }
  DeviceIndex maybeExchangeDevice(DeviceIndex) const override { return 0; }
  int getNumGPUs() const override { return 1; }
};
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, NoHooks)
}  // namespace at
