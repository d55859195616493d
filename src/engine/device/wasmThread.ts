/** A thread of {@link WasmThreads}. */
import { serveCallParts, type ThreadStart } from '../../wasm/threads.ts';

addEventListener('message', ({ data }: MessageEvent<ThreadStart>) => serveCallParts(data), { once: true });
