import { COLLECTIVE_CODECS } from '../../src/spec/codecs.ts';

/** The codecs of collectives that change the values they send. */
export const ENCODED_CODECS = COLLECTIVE_CODECS.filter((name) => name !== 'fp32');
