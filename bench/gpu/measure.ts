/** Measures all models and matrix products of `bench gpu` within a time limit. */
import type { Clock } from '../../src/util/clock.ts';
import { unlessAborted, withinDeadline } from '../../src/util/deadline.ts';
import { errorMessageOf, PeergradError, TimeoutError } from '../../src/util/errors.ts';
import { SOFTWARE_RENDERER } from '../../src/util/gpuAdapter.ts';
import {
  BATCHES,
  LOOPS,
  MODEL_NAMES,
  type ByLoop,
  type GpuBenchResult,
  type GpuModel,
  type ModelResult,
} from './args.ts';
import type { BenchPage, BrowserChoice } from '../world/browsers.ts';
import type { ArgsOf, MeasurementName, ResultOf } from './worker.ts';

const MATRIX_SIZES = { gpu: [256, 512, 1024, 2048, 4096], software: [256, 512] };
/** A browser without a GPU driver may never answer. The engine waits 10 s for an adapter. */
const ADAPTER_MS = 30_000;

/** A page in a browser of its own, which calls functions of `worker.ts`. */
export interface GpuPage extends Pick<BenchPage, 'browser' | 'close'> {
  /** @throws (rejects) Error if the page has no WebGPU, or the measurement fails. */
  measure<Name extends MeasurementName>(name: Name, args: ArgsOf<Name>): Promise<ResultOf<Name>>;
}

interface MeasureOptions extends Pick<BrowserChoice, 'gpu'> {
  /** Milliseconds after which the measurement in progress is abandoned, and none begins. */
  limitMs: number;
}

interface Surroundings {
  /** Opens the page in a fresh browser. */
  open: () => Promise<GpuPage>;
  clock: Clock;
  /** Interrupts the measurement. */
  signal: AbortSignal;
  log: (line: string) => void;
  /** Receives the results so far after each measurement. */
  save: (result: GpuBenchResult) => Promise<void>;
}

/**
 * Measures the matrix products, which take the shortest time, and then the models from small to
 * large. A model that fails or exceeds the time limit is left out.
 *
 * @throws (rejects) PeergradError if WebGPU cannot be opened, or if `gpu` is `hardware` and the
 *   adapter computes in software. The reason of the signal when it is aborted.
 */
export async function measure(
  { gpu, limitMs }: MeasureOptions,
  { open, clock, signal, log, save }: Surroundings,
): Promise<GpuBenchResult> {
  const onPage = pagesUntil(clock.now() + limitMs, { open, clock, signal });
  const { adapter, browser } = await onPage(async (page) => ({
    adapter: await withinDeadline(clock, ADAPTER_MS, page.measure('adapter', null), noAdapter).catch(
      (error: unknown) => {
        throw gpu === 'hardware' ? noGpu(errorMessageOf(error)) : error;
      },
    ),
    browser: page.browser,
  }));
  log(`${adapter.name}, ${browser}. WebGPU features: ${adapter.features.join(', ') || 'none'}.`);
  const kind = SOFTWARE_RENDERER.test(adapter.name) ? 'software' : 'gpu';
  if (gpu === 'hardware' && kind === 'software') {
    throw noGpu(`The browser's WebGPU adapter is ${adapter.name}, which computes in software.`);
  }

  const date = new Date().toISOString().slice(0, 10);
  const result: GpuBenchResult = { adapter, browser, date, leftOut: [], models: [], matmul: [] };
  const { leftOut, models, matmul } = result;
  const attempt = async (name: string, isMeasured: boolean, work: () => Promise<void>): Promise<void> => {
    if (!isMeasured) leftOut.push({ name, reason: 'software' });
    else {
      log(`${name} ...`);
      try {
        await work();
      } catch (error) {
        signal.throwIfAborted();
        const isLate = error instanceof OutOfTime;
        leftOut.push({ name, reason: isLate ? 'time limit' : 'failed' });
        log(`${name} is left out: ${errorMessageOf(error)}`);
      }
    }
    await save(result);
  };

  for (const size of MATRIX_SIZES.gpu) {
    await attempt(`products of ${size}`, MATRIX_SIZES[kind].includes(size), async () => {
      matmul.push(...(await onPage((page) => page.measure('measureMatMul', size))));
    });
  }
  for (const model of MODEL_NAMES) {
    const batch = BATCHES[model][kind];
    await attempt(model, batch !== null, async () => {
      models.push(await measureModel(onPage, model, batch!));
    });
  }
  return result;
}

/** Measures the memory of each loop in a fresh browser, and then all loops in turn. */
async function measureModel(onPage: OnPage, model: GpuModel, batch: number): Promise<ModelResult> {
  const gpuBytes: ByLoop<number> = { plain: 0, stock: 0, own: 0 };
  for (const loop of LOOPS) {
    gpuBytes[loop] = await onPage((page) => page.measure('memoryOf', { loop, model, batch }));
  }
  return { model, batch, ...(await onPage((page) => page.measure('takeTurns', { model, batch }))), gpuBytes };
}

class OutOfTime extends TimeoutError {}

/** Opens the page in a fresh browser for `work`. */
type OnPage = <Result>(work: (page: GpuPage) => Promise<Result>) => Promise<Result>;

/**
 * Returns a function that opens pages until the time `endsAt`. It rejects with OutOfTime from then
 * on, with the reason of the signal when it is aborted, and with the errors of `work`.
 */
function pagesUntil(endsAt: number, { open, clock, signal }: Pick<Surroundings, 'open' | 'clock' | 'signal'>): OnPage {
  const inTime = <Result>(promise: Promise<Result>): Promise<Result> =>
    unlessAborted(signal, withinDeadline(clock, endsAt - clock.now(), promise, late));
  return async (work) => {
    if (clock.now() >= endsAt) throw late();
    const opening = open();
    const page = await inTime(opening).catch((error: unknown) => {
      // The browser may still start.
      void opening.then((opened) => opened.close()).catch(() => {});
      throw error;
    });
    try {
      return await inTime(work(page));
    } finally {
      await page.close();
    }
  };
}

const late = (): Error => new OutOfTime('The time limit was reached. Raise it with --minutes.');

const noAdapter = (): Error => new TimeoutError(`The browser opened no GPU within ${ADAPTER_MS / 1000} s.`);

const CHECKS =
  "On Linux, install the Vulkan part of the GPU's driver, check that `vulkaninfo --summary` lists the GPU, and set " +
  "VK_DRIVER_FILES to the driver's manifest (nvidia_icd.json) if the Vulkan loader does not find it. " +
  'PEERGRAD_BROWSER_FLAGS adds flags of the browser.';

function noGpu(found: string): PeergradError {
  return new PeergradError(`--gpu hardware needs a GPU. ${found} ${CHECKS}`);
}
