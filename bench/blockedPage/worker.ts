/** Trains in a worker. */
import { train, type Training } from './train.ts';

export type FromProgram =
  | { type: 'ready' }
  | { type: 'trained'; stepsPerSecond: number }
  | { type: 'failed'; message: string };

const post = (message: FromProgram): void => globalThis.postMessage(message);

globalThis.onmessage = ({ data }: MessageEvent<Training>) => {
  train(data, () => post({ type: 'ready' })).then(
    (stepsPerSecond) => post({ type: 'trained', stepsPerSecond }),
    (error: unknown) => post({ type: 'failed', message: String(error) }),
  );
};
