/** Makes an entry of every file from which a module starts a worker. */
import path from 'node:path';
import type { Plugin, PluginContext } from 'rolldown';

/** Does not match in comments, whose lines begin with an asterisk. */
const WORKER = /(?<!\*.*)new URL\('(\.[^']+)\.ts', import\.meta\.url\)/g;

/**
 * Keeps the expression `new URL(...)`, by which bundlers of users recognise a worker.
 *
 * @param add receives the worker's source. By default, it becomes an entry of the same build.
 */
export function workerEntries(add = (file: string, build: PluginContext): void => emit(file, build)): Plugin {
  return {
    name: 'worker-entries',
    transform(code, id) {
      for (const [, file] of code.matchAll(WORKER)) add(path.resolve(path.dirname(id), `${file}.ts`), this);
      return code.replaceAll(WORKER, "new URL('$1.js', import.meta.url)");
    },
  };
}

function emit(id: string, build: PluginContext): void {
  build.emitFile({ type: 'chunk', id });
}
