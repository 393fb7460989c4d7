// js-libp2p asks for Node.js 22 because of this one function; with it, it runs on 20.
Promise.withResolvers ??= function () {
  let resolve, reject;
  const promise = new Promise((...both) => {
    [resolve, reject] = both;
  });
  return { promise, resolve, reject };
};
