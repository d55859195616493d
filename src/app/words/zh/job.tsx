import type { Words } from '../en/index.ts';

export const job: Words['job'] = {};
