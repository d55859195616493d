/** A thread of {@link Threads}. */
import { serveParts, type ThreadStart } from '../../wasm/threads.ts';

addEventListener('message', ({ data }: MessageEvent<ThreadStart>) => serveParts(data), { once: true });
