/** Vite replaces the import by the address of the file in the page's folder. */
declare module '*.wasm?url' {
  const url: string;
  export default url;
}
