/** Makes an entry of every file from which a module starts a worker. */
import path from 'node:path';
import type { Plugin } from 'rolldown';

/** Not in a comment, whose lines begin with an asterisk. */
const WORKER = /(?<!\*.*)new URL\('(\.[^']+)\.ts', import\.meta\.url\)/g;

/** Keeps the expression `new URL(...)`, by which bundlers of users recognise a worker. */
export function workerEntries(): Plugin {
  return {
    name: 'worker-entries',
    transform(code, id) {
      for (const [, file] of code.matchAll(WORKER))
        this.emitFile({ type: 'chunk', id: path.resolve(path.dirname(id), `${file}.ts`) });
      return code.replaceAll(WORKER, "new URL('$1.js', import.meta.url)");
    },
  };
}
