/**
 * Opens WebGPU in Node as the engine opens it in a worker. The implementation is Dawn, which
 * Chromium uses too; the adapter is the software adapter of an installed Chromium, or a GPU.
 */
import { existsSync } from 'node:fs';
import { create, globals } from 'webgpu';
import { afterEach, beforeAll } from 'vitest';
import { openFastestDevice } from '../../../src/engine/device/device.ts';
import { systemClock } from '../../../src/util/clock.ts';
import { webgpuBackend } from '../../../src/gpu/backend.ts';

/** Manifest of SwiftShader, in Debian's package of Chromium. */
const SWIFTSHADER = '/usr/lib/chromium/vk_swiftshader_icd.json';
/**
 * Dawn fills workgroup memory with zeros before each shader, as the specification demands. The
 * launcher's browsers turn this off for SwiftShader, because it takes most of the compile time. It
 * is off here, too. SwiftShader's memory is often zero anyway, so these tests do not reliably
 * detect a kernel that reads workgroup memory before it writes it.
 */
const DAWN_OPTIONS = ['enable-dawn-features=disable_workgroup_init'];

let opening: ReturnType<typeof openFastestDevice> | null = null;

beforeAll(async () => {
  opening ??= open();
  const { device, note } = await opening;
  if (device.backend !== 'webgpu') throw new Error(`Install chromium, whose software adapter these tests use. ${note}`);
});

/** Invalid shaders and commands fail a test; without this, their results would be zeros. */
afterEach(async () => {
  await webgpuBackend()?.queue.onSubmittedWorkDone();
  (await opening)?.check();
});

function open(): ReturnType<typeof openFastestDevice> {
  if (existsSync(SWIFTSHADER)) process.env['VK_DRIVER_FILES'] ??= SWIFTSHADER;
  const navigator = { gpu: create(DAWN_OPTIONS), userAgent: 'node' };
  // TensorFlow.js uses WebGPU only on a page or in a worker.
  Object.assign(globalThis, globals, { navigator, isSecureContext: true, WorkerGlobalScope: Object });
  return openFastestDevice(systemClock, () => Promise.resolve(null));
}
