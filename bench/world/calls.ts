/** Calls of functions of a worker by its page. */
import { errorMessageOf, PeergradError } from '../../src/util/errors.ts';

type Answer = { result: unknown } | { message: string };

/**
 * Calls a function of a worker that has called {@link answerCalls}.
 *
 * @throws (rejects) PeergradError if the function or the worker fails.
 */
export function callWorker(worker: Worker, name: string, args: unknown): Promise<unknown> {
  const { port1, port2 } = new MessageChannel();
  return new Promise((resolve, reject) => {
    worker.addEventListener('error', ({ message }) =>
      reject(new PeergradError(`The worker failed: ${message || 'it could not be loaded'}.`)),
    );
    port1.addEventListener('message', ({ data }: MessageEvent<Answer>) =>
      'message' in data ? reject(new PeergradError(data.message)) : resolve(data.result),
    );
    port1.start();
    worker.postMessage({ name, args }, [port2]);
  });
}

/** Lets the page of this worker call functions by name. Messages without a name are no calls. */
export function answerCalls(functions: Readonly<Record<string, (args: never) => Promise<unknown>>>): void {
  globalThis.addEventListener('message', ({ data, ports }: MessageEvent<{ name?: string; args: never }>) => {
    if (data.name === undefined) return;
    const answer = (content: Answer): void => ports[0]!.postMessage(content);
    functions[data.name]!(data.args).then(
      (result) => answer({ result }),
      (error: unknown) => answer({ message: errorMessageOf(error) }),
    );
  });
}
